"""Tables that others published, on data that we have."""
