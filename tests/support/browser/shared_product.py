"""One running product for all workers of a session, and turns for the tests that disturb it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.run.locks import exclusive, lock
from support.run.stack import Stack

PORTS = ("http_port", "target_port", "kafka_port", "mail_catcher_port")
APART: dict[str, Any] = {"incident_window_s": 4, "incident_label": "customer"}
"""Settings with which what tests send is seldom of one incident, and never of one of the demo."""


@contextmanager
def shared_product(folder: Path, jars_dir: Path) -> Iterator[Stack]:
    """Yield the product of this folder; who comes first starts it, and stops it after the others.

    folder: the same one for all workers of the session. Raises AssertionError when it does not
    start in three minutes, or takes ten seconds or more to stop.
    """
    ports, users = folder / "ports.json", folder / "users.lock"
    with exclusive(folder / "start.lock"):
        first = not ports.exists()
        stack = _start(folder, jars_dir, ports) if first else _join(folder, jars_dir, ports)
        using = lock(users, fcntl.LOCK_SH)
    yield stack
    using.close()
    if first:
        with exclusive(users):
            ports.unlink()
            assert stack.stop() < 10


def _start(folder: Path, jars_dir: Path, ports: Path) -> Stack:
    product = Stack(folder / "product", jars_dir=jars_dir, **APART)
    stack = product.start(timeout_s=180)
    ports.write_text(json.dumps({name: getattr(stack.settings, name) for name in PORTS}))
    return stack


def _join(folder: Path, jars_dir: Path, ports: Path) -> Stack:
    return Stack(folder / "product", jars_dir=jars_dir, **json.loads(ports.read_text()))


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the product for one test; alone: while no other test holds it.

    Who waits to be alone lets nobody else begin: the gate stays locked until it is its turn.
    """
    with exclusive(folder / "gate.lock"):
        held = lock(folder / "turn.lock", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    with held:
        yield
