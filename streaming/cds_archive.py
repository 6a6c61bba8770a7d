"""The class archive: the classes that the job loads, laid out so that its next JVM maps them.

Half of a start is the parsing of some 17,000 classes. The JVM can write down what it has loaded
(class data sharing, JEP 350); `streaming/cds_training.py` has the job do so once, at set-up.
Without an archive, or with one that does not fit, everything works, and starts more slowly.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from config.settings import load_settings
from streaming.jvm import JVM_OPTIONS
from streaming.kernel import archive, java_command, library


def class_archive(jars_dir: Path) -> Path:
    """Where the class archive lies: named after class path, Java and options that it fits."""
    digest = hashlib.sha256("\n".join([_java(), *JVM_OPTIONS]).encode())
    for path in [archive(jars_dir), *sorted(library(jars_dir))]:
        digest.update(bytes(path))
    return archive(jars_dir).with_name(f"classes-{digest.hexdigest()[:16]}.jsa")


def _java() -> str:
    """Return which build of Java runs: what it says of its options and its mode is left out."""
    version = subprocess.run(
        [java_command(), "-version"], capture_output=True, text=True, check=False
    )
    return "\n".join(line for line in version.stderr.splitlines() if "Runtime Environment" in line)


def use(path: Path) -> tuple[str, ...]:
    """The options of a JVM that maps the archive; none where there is no archive."""
    return (
        (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off") if path.exists() else ()
    )


def write(path: Path) -> tuple[str, ...]:
    """The options of a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable", "-Xlog:all=error:stderr")


def main() -> None:
    """Exit with 1 unless there is an archive that fits: `python -m streaming.cds_archive`."""
    sys.exit(not class_archive(load_settings().jars_dir).exists())


if __name__ == "__main__":
    main()
