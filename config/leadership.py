"""Which process leads the job, and which stands by: a file next to the checkpoints.

The leader writes it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Leader:
    """The process that leads. Times are in Unix ms, 0 for not (yet).

    name: its name in the group, empty for a job without a standby; role: name of its process; boot:
    the boot of its machine; driver, jvm: process ids; since: when it became leader; running: when
    its queries started; standby: since when another process is ready to take over.
    """

    name: str = ""
    role: str = ""
    boot: str = ""
    driver: int = 0
    jvm: int = 0
    since: int = 0
    running: int = 0
    standby: int = 0


def file_of(checkpoint_dir: Path) -> Path:
    """Return the path of the file. checkpoint_dir: of the job's checkpoints."""
    return checkpoint_dir / "leader.json"


def read(path: Path) -> Leader:
    """Return the leader according to the file, or an empty Leader if it cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        return Leader(**json.loads(path.read_text()))
    return Leader()


def write(path: Path, leader: Leader) -> None:
    """Replace the contents of the file. Raises OSError."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(leader)))
    draft.replace(path)


def boot_id() -> str:
    """Return an id of this machine's current boot, empty if the system provides none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
