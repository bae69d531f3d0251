"""Worlds: the data of a federation, their splits over clients, and corruptions and attacks."""
