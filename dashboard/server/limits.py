"""The number of connections that a web process has, and how long a request may take to come."""

from __future__ import annotations

import resource
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


SPARE = 300
"""What a web process needs beside its connections: modules, the database, Kafka, a body's files."""


class TooFew(Exception):
    """The refusal where the system allows fewer than are needed; the message says what to do."""


def raise_limit(connections: int) -> None:
    """Raise this process's limit as far as the system allows. Raises TooFew."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < connections + SPARE:
        raise TooFew(
            f"This process may have {hard} files open and needs {connections + SPARE}: raise the "
            "hard limit (ulimit -Hn, LimitNOFILE=), or lower TALLYBOARD_HTTP_CONNECTIONS or "
            "TALLYBOARD_SOCKETS."
        )
