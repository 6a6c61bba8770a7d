"""The progress of a start: the broker answers, the web answers, the job tallies."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass

from config.settings import Settings

READY_NEEDS = {"job", "materialiser", "web"}


@dataclass(frozen=True)
class Phase:
    """A step of the start. reached: checks once, within a few seconds.

    process: the one whose log tells more while the step is not reached.
    """

    title: str
    process: str
    reached: Callable[[], bool]


def phases(settings: Settings, started: Collection[str]) -> list[Phase]:
    """Return the steps in starting the named processes, in order."""
    url, kafka, begun = settings.local_url, settings.bootstrap, time.time_ns() // 1_000_000
    steps = [
        ("broker", {"broker"}, f"broker ready on {kafka}", lambda: listens(kafka)),
        ("web", {"web"}, f"web answers on {url}", lambda: answers(f"{url}/healthz")),
        ("job", READY_NEEDS, "job and board ready", lambda: ready(f"{url}/readyz", begun)),
    ]
    return [
        Phase(title, process, reached)
        for process, needs, title, reached in steps
        if needs <= set(started)
    ]


def listens(bootstrap: str) -> bool:
    """Return whether any of the servers `host:port,...` accepts a connection."""
    return any(_connects(server.strip()) for server in bootstrap.split(","))


def _connects(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def answers(url: str) -> bool:
    """Return whether a GET of `url` is answered with 200."""
    return _get(url)[0] == 200


def ready(url: str, begun: int) -> bool:
    """Return whether the board shows the job's states, ignoring queries stopped on purpose.

    begun: when this start began, Unix ms; the job must have reported such queries since then.
    """
    status, body = _get(url)
    if status != 503:
        return status == 200
    resting = _resting(body)
    return bool(resting) and all(since >= begun for since in resting.values())


def _resting(body: bytes) -> dict[str, int]:
    try:
        resting = json.loads(body)["resting"]
    except (ValueError, KeyError, TypeError):
        return {}
    return dict(resting)


def _get(url: str) -> tuple[int, bytes]:
    """Return the status and the body of the answer; status 0 if there is none."""
    request = urllib.request.Request(url)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=4) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""
