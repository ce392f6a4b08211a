"""Experiments that could refute the statements of docs/theory.md; each returns rows and, where asked, draws a picture."""
