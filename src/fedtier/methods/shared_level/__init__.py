"""A shared lower level: all clients together solve one lower-level problem, and the upper level is judged at its solution."""
