"""Models that are compared by what they say of rows which all may see: clients with models of their own."""
