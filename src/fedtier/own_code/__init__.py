"""The user's own code: methods, problems, models, data and metrics named as FILE.py:NAME, or given as objects of a program."""
