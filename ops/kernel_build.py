"""Compile the job's kernel in a separate process: `python -m streaming.kernel`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class KernelBuildProblem(Exception):
    """The kernel could not be compiled; the message is the compiler's."""


def build(jars_dir: Path) -> None:
    """Compile the kernel against the archives in `jars_dir`, unless that has been done.

    Raises KernelBuildProblem.
    """
    command = [sys.executable, "-m", "streaming.kernel"]
    environment = os.environ | {"TALLYBOARD_JARS_DIR": str(jars_dir)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise KernelBuildProblem(done.stderr.strip())
