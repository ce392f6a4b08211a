"""Runs between sites over Flower: `apps` is what Flower loads, `folder` writes the app that names it."""
