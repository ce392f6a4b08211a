"""Asynchronous: the server does not wait for a cohort; each reply answers a broadcast that may be some steps old."""
