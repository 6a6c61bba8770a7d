"""The kernel's Maven project is what the set-up builds: sources, release, archives."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from config.archives import PYSPARK, file_name, folder_of, read_lock
from streaming import kernel

FOLDER = Path(kernel.__file__).parent
POM = ET.parse(FOLDER / "pom.xml")
NAMES = {"m": "http://maven.apache.org/POM/4.0.0"}
IMPORT = re.compile(r"^import (?:static )?([\w.]+);", re.MULTILINE)
FIELDS = ("groupId", "artifactId", "version", "scope", "systemPath")
PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)


class Dependency(NamedTuple):
    """A dependency as the pom names it."""

    group: str
    artifact: str
    version: str
    scope: str
    path: str

    @property
    def jar(self) -> str:
        """The file of its archive."""
        return f"{self.artifact}-{self.version}.jar"


def text(path: str) -> str:
    """The text of one element of the pom."""
    return POM.findtext(path, "", NAMES)


def dependencies() -> list[Dependency]:
    """All dependencies of the pom."""
    return [
        Dependency(*(each.findtext(f"m:{name}", "", NAMES) for name in FIELDS))
        for each in POM.iterfind("m:dependencies/m:dependency", NAMES)
    ]


@pytest.mark.parametrize("dependency", dependencies(), ids=lambda one: one.artifact)
def test_a_dependency_is_the_archive_of_the_lock(dependency: Dependency) -> None:
    """From the registry by its module; of what PySpark brings the lock has the file alone."""
    lock = read_lock()
    module = f"{dependency.group}:{dependency.artifact}:{dependency.version}"
    assert module in lock["spark"] or dependency.jar in lock[PYSPARK]
    if dependency.path:  # of PySpark's own folder, where the registry has no such version
        assert (dependency.scope, dependency.jar in lock[PYSPARK]) == ("system", True)
        assert dependency.path == f"${{pyspark.jars}}/{dependency.jar}"
    else:
        assert dependency.scope == "provided"


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_kernel_project.py::test_a_dependency_is_the_archive_of_the_lock"
)
def test_the_dependencies_hold_every_class_that_is_imported(jars_dir: Path) -> None:
    folders = {
        file_name(key): folder_of(group, jars_dir)
        for group in ("spark", PYSPARK)
        for key in read_lock()[group]
    }
    held = {
        name.removesuffix(".class").replace("/", ".").replace("$", ".")
        for each in dependencies()
        for name in zipfile.ZipFile(folders[each.jar] / each.jar).namelist()
    }
    imported = {
        name
        for path in kernel.sources()
        for name in IMPORT.findall(path.read_text())
        if name.partition(".")[0] not in ("java", "javax", "tallyboard")
    }
    assert len(imported) > 10
    assert imported - held == set()


def test_the_release_is_the_one_that_the_set_up_compiles_for() -> None:
    assert text("m:properties/m:maven.compiler.release") == kernel.RELEASE


def test_sources_lie_where_their_packages_say() -> None:
    tests = FOLDER / text("m:build/m:testSourceDirectory")
    for root, paths in (
        (FOLDER / "src/main/java", kernel.sources()),
        (tests, sorted(tests.rglob("*.java"))),
    ):
        assert paths
        for path in paths:
            [package] = PACKAGE.findall(path.read_text())
            assert path.parent == root / package.replace(".", "/")
