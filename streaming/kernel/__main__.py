"""`python -m streaming.kernel`: compile the kernel for the configured archives."""

from __future__ import annotations

import sys

from config.settings import load_settings
from streaming.kernel import KernelProblem, build


def main() -> None:
    """Compile the kernel. Exit with one message if that cannot be done."""
    try:
        build(load_settings().jars_dir)
    except KernelProblem as problem:
        sys.exit(f"kernel: {problem}")


if __name__ == "__main__":
    main()
