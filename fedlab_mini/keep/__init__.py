"""Keep: what is written to disk and read again, whole or not at all."""
