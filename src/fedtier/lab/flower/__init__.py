"""Runs between sites over Flower: `server` and `client` are what Flower loads, `folder` writes the app that names them."""
