"""Show: the bench's results as tables, figures and an explorer."""
