"""What the paper's text claims, each claim checked against our records.

kinds     the kinds of claims: what is compared, which rule decides, how it is written
special   the claims that are of no kind: a function each
entries   the claims, as data, and the table of them
verdicts  cases → verdict
"""
