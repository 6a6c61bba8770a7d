"""Who leads the job, and who stands by: a file beside the checkpoints, which the leader writes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Leader:
    """The process that leads. Times in Unix ms, 0 for not (yet).

    name: its name in the group, empty for a job without a standby; role: its process's name; boot:
    the boot of the machine that it runs on; driver, jvm: process ids; since: it leads;
    running: since when its queries run; standby: since when another process is ready to take over.
    """

    name: str = ""
    role: str = ""
    boot: str = ""
    driver: int = 0
    jvm: int = 0
    since: int = 0
    running: int = 0
    standby: int = 0


def file_of(data_dir: Path) -> Path:
    """Return the path of the file."""
    return data_dir / "checkpoint" / "leader.json"


def read(path: Path) -> Leader:
    """Return who leads by the file; an empty leader where it says nothing that can be read."""
    with suppress(OSError, ValueError, TypeError):
        return Leader(**json.loads(path.read_text()))
    return Leader()


def write(path: Path, leader: Leader) -> None:
    """Replace what the file says. Raises OSError."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(leader)))
    draft.replace(path)


def boot_id() -> str:
    """Return what names this boot of this machine; empty where the system does not say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
