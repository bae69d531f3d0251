"""Judge: is a score right? Metrics, intervals, scores of recorded rounds, named methods."""
