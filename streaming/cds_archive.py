"""The class archive: the classes that the job loads, laid out so that its next JVM maps them.

Half of a start is the parsing of some 17,000 classes. The JVM can write down what it has loaded
(class data sharing, JEP 350); `streaming/cds_training.py` has the job do so once, at set-up.
Without an archive, or with one that does not fit, everything works, and starts more slowly.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from config.java import find_java, java_version
from config.settings import load_settings
from streaming.gateway import class_path
from streaming.jvm import JVM_OPTIONS
from streaming.kernel import archive


def class_archive(jars_dir: Path) -> Path:
    """Return the path of the class archive, named after its class path, Java and options."""
    digest = hashlib.sha256("\n".join([_java(), *JVM_OPTIONS]).encode())
    for path in class_path(jars_dir):
        digest.update(bytes(path))
    return archive(jars_dir).with_name(f"classes-{digest.hexdigest()[:16]}.jsa")


def _java() -> str:
    """Return which build of Java runs: what it says of its options and its mode is left out."""
    lines = java_version(find_java()).splitlines()
    return "\n".join(line for line in lines if "Runtime Environment" in line)


def use(path: Path) -> tuple[str, ...]:
    """Return the options of a JVM that maps the archive; none if there is no archive."""
    return (
        (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off") if path.exists() else ()
    )


def write(path: Path) -> tuple[str, ...]:
    """Return the options of a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable", "-Xlog:all=error:stderr")


def main() -> None:
    """Exit with 1 unless there is an archive that fits: `python -m streaming.cds_archive`."""
    sys.exit(not class_archive(load_settings().jars_dir).exists())


if __name__ == "__main__":
    main()
