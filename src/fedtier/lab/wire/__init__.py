"""Runs between sites: a configuration and a site's file glued to the driver, into the same run store as a simulation."""

from .export import export
from .server import play
from .settings import WireRun, read
from .site import open_site, site_command

__all__ = ["WireRun", "export", "open_site", "play", "read", "site_command"]
