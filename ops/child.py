"""`python -m ops.child COMMAND...` becomes COMMAND, and is signalled when its parent dies.

Otherwise the processes of a killed supervisor would live on and hold ports and locks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT = "TALLYBOARD_PARENT"  # id of the process that started this one; it may be gone already


def die_with_parent(signal_number: int = signal.SIGTERM) -> None:
    """Have the kernel send `signal_number` to this process when its parent ends (Linux only)."""
    if sys.platform != "linux":
        return
    parent = int(os.environ.get(PARENT) or os.getppid())
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def main() -> None:
    """Become the command in the arguments."""
    die_with_parent()
    os.environ[PARENT] = str(os.getpid())
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main()
