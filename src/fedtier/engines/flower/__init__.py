"""Flower carries the wire: a ServerApp over the driver's `ask`, a ClientApp over a site's `answer`.

    server.py   the server's end: letters out over Flower's Grid, replies in       client.py   a site's end
    names.py    words that both ends use                                           extra.py    whether Flower is installed

This is the only package that imports flwr: `pip install "fedtier[flower]"`.
"""
