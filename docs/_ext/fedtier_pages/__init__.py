"""The documentation's own code: what is made from the registry, the configuration, the commands and the docstrings."""
