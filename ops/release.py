"""`make release`: build what a release consists of into dist/.

The wheel of tallyboard-agents, the context from which the image is built, the list of all parts
(CycloneDX), and the release notes: the changelog's section of this version. Nothing is fetched.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from config.archives import ArchivesProblem
from config.settings import load_settings
from ops import sbom
from ops.agents_wheel import DIST, WheelProblem, build
from ops.inventory import InventoryProblem, inventory
from ops.setup import ROOT

# Lists what Docker leaves out of the context, which the rest of the tree would otherwise add.
IGNORED = ".dockerignore"


class ReleaseProblem(Exception):
    """The release cannot be built; the message says why."""


def release(folder: Path = DIST, root: Path = ROOT) -> list[Path]:
    """Build every part of the release into a folder, and return their paths.

    Raises ReleaseProblem, WheelProblem, InventoryProblem or ArchivesProblem.
    """
    require_committed(root)
    version = str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
    notes = release_notes((root / "CHANGELOG.md").read_text(), version)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        build(folder),
        write_image_context(folder / f"tallyboard-{version}-image.tar", root),
        _written(folder / f"tallyboard-{version}.cdx.json", _list_of_parts()),
        _written(folder / f"tallyboard-{version}-notes.md", notes),
    ]


def require_committed(root: Path) -> None:
    """Raise ReleaseProblem if the tree differs from its commit: a release is made from a commit."""
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseProblem(f"the tree has changes that are not committed:\n{changed.rstrip()}")


def release_notes(changelog: str, version: str) -> str:
    """Return the changelog's section for a version, without its heading.

    Raises ReleaseProblem if there is no such section or it is empty.
    """
    section = re.search(
        rf"^## {re.escape(version)}(?=\s)[^\n]*\n(.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if section is None or not section[1].strip():
        raise ReleaseProblem(f"CHANGELOG.md: expected a section ## {version} with some text")
    return f"{section[1].strip()}\n"


def write_image_context(file: Path, root: Path) -> Path:
    """Write the committed files that the Dockerfile may copy into a tar, and return its path.

    `docker build - < FILE` builds the image from it. The same commit always gives the same bytes.
    """
    left_out = [f":(exclude,glob){name}" for name in ignored((root / IGNORED).read_text())]
    _git(root, "archive", "--format=tar", f"--output={file.resolve()}", "HEAD", ".", *left_out)
    return file


def ignored(dockerignore: str) -> list[str]:
    """Return the entries of a .dockerignore as git patterns of whole paths.

    An entry also covers everything below it.
    """
    names = [line.strip() for line in dockerignore.splitlines()]
    names = [name for name in names if name and not name.startswith("#")]
    return [pattern for name in names for pattern in (name, f"{name}/**")]


def _list_of_parts() -> str:
    return f"{sbom.document(inventory(load_settings().jars_dir))}\n"


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def _git(root: Path, *words: str) -> str:
    """Run git in the tree and return its output. Raises ReleaseProblem with git's message."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseProblem(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Build the release and print its parts; ends with one message when that cannot be done."""
    try:
        for file in release():
            print(file.relative_to(ROOT))
    except (ReleaseProblem, WheelProblem, InventoryProblem, ArchivesProblem) as problem:
        sys.exit(f"release: {problem}")


if __name__ == "__main__":
    main()
