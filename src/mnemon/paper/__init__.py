"""The paper this project reproduces: what it reports, as data; its tables, figures and claims made from records.

The hyper-parameters of its cells are in `experiments/recipes`.
"""
