"""What waiting for the slowest client costs: synchronous and asynchronous methods on one virtual clock."""
