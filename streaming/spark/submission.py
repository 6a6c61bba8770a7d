"""What a session on a cluster is started with: its configuration in a file, and the code shipped.

Spark's launcher would take settings as arguments, which every user of the machine can read.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
# The packages that executors import: the fold, and what runs in pipelines and rules.
PACKAGES = ("bus", "config", "domain", "pipelines", "rules", "streaming", "wire")
SUBMIT = "PYSPARK_SUBMIT_ARGS"


def submit(conf: Mapping[str, str], scratch: Path) -> SparkSession:
    """Return a session on a cluster, whose executors find the product's code. Raises OSError.

    scratch: a folder that only this process writes to.
    """
    file, before = scratch / "submit.conf", os.environ.get(SUBMIT)
    _write_private(file, properties(conf))
    os.environ[SUBMIT] = f"--properties-file {shlex.quote(str(file))} pyspark-shell"
    try:
        session = _session(conf)
    finally:
        file.unlink(missing_ok=True)
        if before is None:
            del os.environ[SUBMIT]
        else:
            os.environ[SUBMIT] = before
    session.sparkContext.addPyFile(str(pack_code(scratch)))
    return session


def _session(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    # These two are asked for before the file is read.
    builder = SparkSession.builder.master(conf["spark.master"])
    return builder.appName(conf["spark.app.name"]).getOrCreate()


def properties(conf: Mapping[str, str]) -> str:
    """Return a configuration as Java's properties."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in conf.items())


def _escaped(value: str) -> str:
    """Return a value as Java's properties have it: in ASCII, whatever stands at its begin."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if text[:1] in (" ", "\t", "="):
        text = f"\\{text}"
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)


def _write_private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
        target.write(text)


def pack_code(folder: Path, root: Path = ROOT) -> Path:
    """Return an archive in `folder` of the packages that executors import.

    It bears a digest of what is in it. Raises OSError.
    """
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in _modules(root)}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    target = folder / f"tallyboard-{digest.hexdigest()[:16]}.zip"
    draft = target.with_suffix(".new")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    draft.replace(target)
    return target


def _modules(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))
