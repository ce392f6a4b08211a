"""Two levels: the server's problem over the solutions of the clients' own. ZO-HFL and its estimators."""
