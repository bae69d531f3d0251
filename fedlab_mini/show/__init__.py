"""Show: figures, tables and interactive widgets; nothing is computed here that a chapter needs."""
