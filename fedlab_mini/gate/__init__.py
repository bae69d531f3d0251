"""Gate: the upper storey of the border; public functions that parse, then call the core."""
