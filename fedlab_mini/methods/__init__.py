"""Contribution methods, one file a family; each strategy runs in ``training.train``."""
