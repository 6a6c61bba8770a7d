"""One broker for all workers of a session; tests that share it keep apart by topic prefix."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.run.locks import exclusive, lock
from support.run.stack import EmbeddedBroker


@contextmanager
def shared_broker(folder: Path, own: Path, jars_dir: Path) -> Iterator[EmbeddedBroker]:
    """Yield the broker of this folder; who comes first starts it, and stops it after the others.

    folder: the same one for all workers of the session; own: a worker's data directory.
    """
    port, users = folder / "broker.port", folder / "broker-users.lock"
    with exclusive(folder / "broker-start.lock"):
        first = not port.exists()
        broker = EmbeddedBroker(own, jars_dir, None if first else int(port.read_text()))
        if first:
            broker.start()
            port.write_text(str(broker.port))
        using = lock(users, fcntl.LOCK_SH)
    yield broker
    using.close()
    if first:
        with exclusive(users):
            port.unlink()
            broker.stop()
