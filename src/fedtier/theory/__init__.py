"""Constants, bounds, step sizes and complexities: what the theorems promise for a problem. Derivations: docs/theory.md."""
