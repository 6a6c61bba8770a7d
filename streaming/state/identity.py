"""Whose checkpoints these are: written once, with the first epoch, and compared at every start.

Offsets mean nothing but in the log that they were taken from. A checkpoint of another cluster, or
of other topics, would have the job pass over records that it has never read.
"""

from __future__ import annotations

from uuid import uuid4

import msgspec

from streaming.state.checkpoint import LogProblem
from streaming.state.storage import StoragePath

IDENTITY = "identity.json"


class Identity(msgspec.Struct, frozen=True):
    """The log that checkpoints were made from.

    cluster: Kafka's id of the cluster; prefix: of the topics; id: of these checkpoints, of chance;
    since: when they were begun, Unix ms.
    """

    cluster: str
    prefix: str
    id: str = ""
    since: int = 0

    def __str__(self) -> str:
        prefix = f"topic prefix {self.prefix!r}" if self.prefix else "no topic prefix"
        return f"cluster {self.cluster}, {prefix}"


class ForeignCheckpoint(LogProblem):
    """The checkpoints were made from another log; the message says from which."""


def read_identity(folder: StoragePath) -> Identity | None:
    """Return whose checkpoints are in this folder, None before the first.

    Raises OSError, and ForeignCheckpoint for a file that cannot be read: it may be anybody's.
    """
    try:
        return msgspec.json.decode((folder / IDENTITY).read_bytes(), type=Identity)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ForeignCheckpoint(f"{folder / IDENTITY} cannot be read: {error}") from None


def claim(folder: StoragePath, cluster: str, prefix: str, now_ms: int) -> Identity:
    """Return the identity of the checkpoints in this folder; write it where there is none yet.

    Raises OSError, and ForeignCheckpoint where they were made from another log.
    """
    identity = read_identity(folder)
    if identity is None:
        own = Identity(cluster, prefix, str(uuid4()), now_ms)
        (folder / IDENTITY).create(msgspec.json.encode(own))
        identity = read_identity(folder) or own
    check(folder, identity, cluster, prefix)
    return identity


def check(folder: StoragePath, identity: Identity, cluster: str, prefix: str) -> None:
    """Raise ForeignCheckpoint unless the identity is that of this log."""
    own = Identity(cluster, prefix)
    if (identity.cluster, identity.prefix) != (cluster, prefix):
        raise ForeignCheckpoint(f"{folder}: it is of {identity}; this job has {own}")
