"""Show: figures, tables and interactive widgets. No chapter needs this room to compute a result."""
