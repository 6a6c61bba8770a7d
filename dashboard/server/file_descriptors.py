"""The number of files, and so connections, that this process may have open."""

from __future__ import annotations

import resource

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
