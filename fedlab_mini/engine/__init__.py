"""Engine: one round of federated training, the loops over rounds and runs, and their files."""
