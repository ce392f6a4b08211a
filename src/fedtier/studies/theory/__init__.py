"""What the theorems say about a configuration (`page`), and experiments that could refute them (`verify`)."""
