"""Clustered: several models, one for each group of clients that are alike."""
