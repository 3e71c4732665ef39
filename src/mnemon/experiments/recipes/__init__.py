"""Hyper-parameters: what each cell of the tables uses, and what a search tries."""
