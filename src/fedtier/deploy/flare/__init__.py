"""NVIDIA FLARE carries the wire: identity, mutual TLS, kits and jobs. What it does not do, crash recovery, is done here.

    authority.py   sites.toml -> kits with their own certificate authority      lockdown.py   what a kit allows: little
    controller.py  the server's end of the transport, inside FLARE's job         executor.py   a site's end, with its solver
    job.py         the job folder: two small configurations, no code            workspace.py  a kit and a state folder at work
    requests.py    keys that are made at their party                             certificates.py  what FLARE's builders sign
    revocation.py  what the authority has taken back                             peers.py, validity.py  whose certificate holds
    supervise.py   children that are restarted        admin.py  what FLARE's server says      serve.py, join.py, status.py

This is the only package that imports nvflare, and each module does so where it needs it: `pip install "fedtier[flare]"`.
"""
