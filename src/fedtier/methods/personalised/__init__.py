"""Personalised: methods whose result is a model for each client."""
