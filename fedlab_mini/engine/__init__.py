"""Engine: a round of federated training, what repeats it, and what keeps it safe on disk."""
