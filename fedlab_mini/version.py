"""Version: the one place that states it; part of what a history says of its training."""

__version__ = "3.0.0"
