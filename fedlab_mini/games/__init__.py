"""Games: what each coalition of clients is worth, and the clients' values computed from it."""
