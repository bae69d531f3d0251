"""Games: what a coalition of clients is worth, and the values that follow from it."""
