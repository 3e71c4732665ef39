"""Experiments: one run, many runs in one folder, what is measured and what is recorded."""
