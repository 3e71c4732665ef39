"""The rules for rows of a table, one set for all who read them (`own_data` in chunks, `sources` row by row).

columns    which columns are label, identifier and features; the header
cells      texts of a CSV file as values
rows       a row as features, label and identifier
labels     texts as the labels a model knows

Nothing here opens a file, and nothing keeps a state.
"""
