"""How far a start has come: the broker answers, the web answers, the job tallies."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass

from config.settings import Settings

READY_NEEDS = {"job", "materialiser", "web"}


@dataclass(frozen=True)
class Phase:
    """A step of the start; `reached` looks once, within a few seconds.

    `process` is whose log tells more while it is not reached.
    """

    title: str
    process: str
    reached: Callable[[], bool]


def base_url(settings: Settings) -> str:
    """The web server's address as a browser on this machine uses it."""
    anywhere = settings.http_host in ("0.0.0.0", "::", "")  # noqa: S104
    host = "127.0.0.1" if anywhere else settings.http_host
    return f"http://{host}:{settings.http_port}"


def phases(settings: Settings, started: Collection[str]) -> list[Phase]:
    """The steps of a start of the named processes, in order."""
    url, kafka = base_url(settings), settings.bootstrap
    steps = [
        ("broker", {"broker"}, f"broker ready on {kafka}", lambda: listens(kafka)),
        ("web", {"web"}, f"web answers on {url}", lambda: answers(f"{url}/healthz")),
        ("job", READY_NEEDS, "job tallying, board ready", lambda: answers(f"{url}/readyz")),
    ]
    return [
        Phase(title, process, reached)
        for process, needs, title, reached in steps
        if needs <= set(started)
    ]


def listens(bootstrap: str) -> bool:
    """Whether any of the servers `host:port,...` accepts a connection."""
    return any(_connects(server.strip()) for server in bootstrap.split(","))


def _connects(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def answers(url: str) -> bool:
    """Whether a GET of `url` is answered with 200."""
    request = urllib.request.Request(url)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=4) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False
