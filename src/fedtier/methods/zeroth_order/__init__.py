"""Zeroth order: clients compare values of the loss at nearby models, and need no gradient of it."""
