"""What the product consists of: Python packages, Java archives with their contents, scripts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from config.archives import file_name, folder_of, read_lock, sha256
from ops.java_setup import LOCK as JAVA_LOCK
from ops.setup import PRODUCT_LOCK, ROOT

UPLOT = ROOT / "static" / "vendor" / "uplot" / "uPlot.iife.min.js"
HTMX = Path("django_htmx", "static", "django_htmx", "htmx-2.min.js")
ALTCHA = ROOT / "static" / "vendor" / "altcha" / "scrypt-3.2.2.js"
# Vendored scripts by npm name: the file, and where its name or text contains the version.
SCRIPTS = {
    "uplot": (UPLOT, re.compile(r"uPlot \(v([\d.]+)\)")),
    "altcha": (ALTCHA, re.compile(r"^scrypt-([\d.]+)\.js\n")),
    "htmx.org": (HTMX, re.compile(r'version:"([\d.]+)"')),
}

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NAMED = re.compile(r"^(?P<name>.+?)-(?P<version>\d.*)$")


class InventoryProblem(Exception):
    """A part cannot be identified; the message says which, and what to do."""


@dataclass(frozen=True)
class Dependency:
    """A package: its ecosystem (PyPI, Maven, npm), name and version.

    A Maven name is `organisation:artifact`, or only the artifact if the archive does not say whose
    it is. sha256: of the file; for a Python package, of all its files in the registry. parts: the
    packages shaded into an archive, according to the descriptions in it.
    """

    ecosystem: str
    name: str
    version: str
    sha256: tuple[str, ...] = ()
    file: str = ""
    parts: tuple[Dependency, ...] = field(default=())


def inventory(jars_dir: Path) -> list[Dependency]:
    """Return everything that the product ships. Raises InventoryProblem or ArchivesProblem."""
    locks = (PRODUCT_LOCK, JAVA_LOCK)
    packages = [part for lock in locks for part in python_parts(lock.read_text())]
    return [*packages, *jar_parts(jars_dir), *script_parts()]


def python_parts(lock: str) -> Iterator[Dependency]:
    """Yield the packages in a requirements lock."""
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    for entry in entries:
        if pinned := PINNED.match(entry):
            yield Dependency("PyPI", pinned[1], pinned[2], tuple(HASH.findall(entry)))


def jar_parts(jars_dir: Path) -> Iterator[Dependency]:
    """Yield every archive in the lock, with its contents.

    Raises InventoryProblem if one is missing.
    """
    lock = read_lock()
    known = {
        key.split(":")[1]: key.split(":")[0] for each in lock.values() for key in each if ":" in key
    }
    for group, digests in lock.items():
        for key, digest in digests.items():
            path = folder_of(group, jars_dir) / file_name(key)
            if not path.exists():
                raise InventoryProblem(f"{path} is not there: run make setup.")
            yield jar_part(path, key, digest, known)


def jar_part(path: Path, key: str, digest: str, known: Mapping[str, str]) -> Dependency:
    """Return an archive, identified by the lock, else by its description, else by its file name.

    known: organisations by artifact.
    """
    held = modules(path)
    if ":" in key:
        name, _, version = key.rpartition(":")
    else:
        name, version = _named(path, held)
        name = f"{known[name]}:{name}" if name in known else name
    inner = (Dependency("Maven", *each) for each in held if each != (name, version))
    return Dependency("Maven", name, version, (digest,), path.name, tuple(inner))


def modules(path: Path) -> list[tuple[str, str]]:
    """Return the Maven modules described in an archive, as `group:artifact` and version.

    An archive contains its own description and those of what was shaded into it.
    """
    with zipfile.ZipFile(path) as jar:
        texts = [jar.read(each) for each in jar.namelist() if each.endswith("/pom.properties")]
    described = {_described(text.decode(errors="replace")) for text in texts}
    return sorted(each for each in described if all(each))


def _described(properties: str) -> tuple[str, str]:
    pairs = dict(line.strip().split("=", 1) for line in properties.splitlines() if "=" in line)
    group, artifact = pairs.get("groupId"), pairs.get("artifactId")
    return (f"{group}:{artifact}" if group and artifact else "", pairs.get("version", ""))


def _named(path: Path, held: list[tuple[str, str]]) -> tuple[str, str]:
    """Return an archive's name and version, from the description that matches its file name."""
    ours = [each for each in held if path.stem.startswith(_stem(*each))]
    if ours:
        return max(ours, key=lambda each: len(_stem(*each)))
    parsed = NAMED.match(path.stem)
    if parsed is None:
        raise InventoryProblem(f"{path}: expected NAME-VERSION.jar.")
    return parsed["name"], parsed["version"]


def _stem(name: str, version: str) -> str:
    return f"{name.rpartition(':')[2]}-{version}"


def script_parts() -> Iterator[Dependency]:
    """Yield the scripts in this tree or inside a Python package. Raises InventoryProblem."""
    for name, (where, says) in SCRIPTS.items():
        path = where if where.is_absolute() else _installed(where)
        version = says.search(f"{path.name}\n{path.read_text(encoding='utf-8')}")
        if version is None:
            raise InventoryProblem(f"{path} does not tell its version.")
        yield Dependency("npm", name, version[1], (sha256(path),), path.name)


def _installed(where: Path) -> Path:
    try:
        return Path(str(distribution(where.parts[0].replace("_", "-")).locate_file(where)))
    except PackageNotFoundError:
        raise InventoryProblem(f"{where.parts[0]} is not installed: run make setup.") from None
