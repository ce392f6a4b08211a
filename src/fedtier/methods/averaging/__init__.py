"""Averaging: clients train from the global model, the server combines what they send into the next one."""
