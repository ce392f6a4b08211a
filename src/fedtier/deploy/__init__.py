"""What a server and a site run between machines: a run file and a site's file glued to the protocol, over FLARE or Flower.

    settings.py   run.toml with its table [wire]        server.py   the server's rounds, into a run folder
    party.py      rows by the server's preparation      site.py     a site's rows and limits, answering letters
    rows.py       the server's own rows                 export.py   the rows of each party as files: a rehearsal
    flare/        NVIDIA FLARE carries the letters      flower/     Flower does

Nothing is imported here: the processes that only carry bytes must not load JAX.
"""
