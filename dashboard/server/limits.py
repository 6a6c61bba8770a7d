"""The number of connections that a web process has, and how long a request may take to come."""

from __future__ import annotations

from typing import NamedTuple

from config.settings import Settings


class Bounds(NamedTuple):
    """The time that headers and a small body may take, s, and how many connections there may be.

    at_once: of one address with a request that is not answered; 0: no bound.
    """

    head_s: float
    body_s: float
    connections: int
    at_once: int


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds by the settings.

    Behind a proxy all come from its address, and clients are its to bound.
    """
    return Bounds(
        settings.http_head_s,
        settings.http_body_s,
        settings.http_connections,
        0 if settings.trusted_proxies else settings.http_connections_per_address,
    )
