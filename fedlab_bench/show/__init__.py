"""Show: what the bench found, as tables, figures and an explorer."""
