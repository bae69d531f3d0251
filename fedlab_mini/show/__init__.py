"""Show: figures, tables and interactive widgets. No chapter needs it to compute a result."""
