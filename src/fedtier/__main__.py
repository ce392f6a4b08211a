"""`python -m fedtier` is the `fedtier` command."""

from .cli import main

main()
