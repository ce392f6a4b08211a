"""Who may look: by which name the server was called, and with which token.

A page on the internet can make a browser ask this server (by a name that it points to 127.0.0.1), but the browser then sends
that name along. So names that are not this server's are refused. Beyond loopback a token is needed: it comes once in the
address, is put into a cookie and taken out of the address; programs send it as `Authorization: Bearer`.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from ...errors import NOTHING, FedtierError, require

SHORTEST = 16  # letters of a token
LOOPBACK = ("localhost", "127.0.0.1", "::1")
COOKIE = "fedtier_watch"


class Guard(NamedTuple):
    """What a question must have to be answered."""

    host: str  # the address that is listened at
    token: str  # empty: none is asked for

    def knows(self, called: str | None) -> bool:
        """Whether the header Host names this server; its port may be that of a tunnel."""
        name = host_name(called or "")
        if name in LOOPBACK or name == self.host.lower():
            return True
        return is_everywhere(self.host) and (_is_address(name) or name == socket.gethostname().lower())

    def admits(self, given: str | None) -> bool:
        """Whether `given` is the token; compared in a time that does not tell how much of it was right."""
        return not self.token or hmac.compare_digest((given or "").encode(), self.token.encode())


def guard_for(host: str, token: str | None) -> Guard:
    """The guard of a server at `host`: beyond loopback one with a token, made here unless given."""
    if token is not None:
        rule = f"must have {SHORTEST} letters or more, of A-Z, a-z, 0-9, - and _"
        fits = len(token) >= SHORTEST and token.isascii() and token.replace("-", "").replace("_", "").isalnum()
        require(fits, "--token", NOTHING, rule, "leave it out beyond loopback, and one is made")
    made = "" if is_loopback(host) else secrets.token_urlsafe(24)
    return Guard(host, token or made)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether `host` stands for all addresses of the machine."""
    return host in ("", "0.0.0.0", "::")


def host_name(called: str) -> str:
    """The name in a header Host, without its port; empty where it is none."""
    called = called.strip().lower()
    if called.startswith("["):
        inside, closed, rest = called[1:].partition("]")
        return inside if closed and (rest == "" or rest[:1] == ":") else ""
    name, _, port = called.partition(":")
    return name if port == "" or port.isdecimal() else ""


def token_in(headers: Mapping[str, str], port: int) -> str | None:
    """The token that a question brings, in the header Authorization or in our cookie."""
    kind, _, word = headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return word.strip()
    try:
        found = SimpleCookie(headers.get("Cookie", "")).get(cookie_name(port))
    except CookieError:
        return None
    return found.value if found else None


def cookie_name(port: int) -> str:
    """One for each port: cookies do not know of ports, and two servers must not push each other out."""
    return f"{COOKIE}_{port}"


def resolved(host: str) -> tuple[socket.AddressFamily, str]:
    """(family, address) to listen at; a name that there is not is refused."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise FedtierError("--host", host, f"is no address of this machine: {error.strerror}", "127.0.0.1") from None
    return socket.AddressFamily(family), str(address[0])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
