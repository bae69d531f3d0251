"""Command: ``python -m fedlab_bench``."""
