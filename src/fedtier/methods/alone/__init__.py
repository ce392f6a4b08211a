"""Alone: nobody sends anything. What a federation must beat."""
