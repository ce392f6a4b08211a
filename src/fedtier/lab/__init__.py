"""Experiments: configuration, runs, metrics, the store and the tables."""
