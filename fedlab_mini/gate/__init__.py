"""Gate: public functions, which parse their arguments and then call the core's functions."""
