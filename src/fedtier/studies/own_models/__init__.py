"""Four sites with four kinds of models, and a server with a net."""
