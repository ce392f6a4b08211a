"""A run while it goes on: what its folder says now, as a page, as JSON and for Prometheus. Nothing here writes."""
