"""Worlds: what a federation is made of, and what goes wrong in it: data, splits, corruption."""
