"""Analyses that nobody waits for: the queue, and whoever works on it."""
