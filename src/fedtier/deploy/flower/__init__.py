"""Flower carries the wire: a ServerApp over the driver's `ask`, a ClientApp over a site's `answer`.

    server.py, client.py       what Flower loads                                       folder.py  writes the app that names them
    transport.py, node.py      the letters over Flower's Grid, and a site's end       paths.py   where their files are
    names.py    words that both ends use                                           extra.py    whether Flower is installed

This is the only package that imports flwr: `pip install "fedtier[flower]"`.
"""
