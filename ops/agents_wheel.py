"""`make agents-wheel`: build `tallyboard-agents`, with which any program can report and log.

The wheel contains the package `agents` and what it imports from other packages, all below
`tallyboard_agents`, for example `tallyboard_agents.bus.base`: a program may well have its own `bus`
or `domain`. The imports are therefore rewritten during the build; the tree has only one copy of
each module, with its usual imports.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import grimp

from ops.setup import ROOT

PACKAGE = "tallyboard_agents"
PROJECT = ROOT / "ops" / "agents_wheel.toml"
DIST = ROOT / "dist"
# The packages that the wheel may contain; the first is the one it offers.
ROOMS = ("agents", "bus", "domain", "wire")


class WheelProblem(Exception):
    """The wheel cannot be built; the message says why."""


def modules() -> set[str]:
    """Return the names of `agents` and all modules of the product that it imports."""
    graph = grimp.build_graph(*ROOMS, exclude_type_checking_imports=True, cache_dir=None)
    return {*ROOMS, *graph.find_upstream_modules(ROOMS[0])}


def write_project(folder: Path) -> None:
    """Write the package's sources and its pyproject.toml into an empty folder."""
    for module in modules():
        path = _file(module)
        target = folder / "src" / _renamed(module).replace(".", "/")
        target = target / path.name if path.stem == "__init__" else target.with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rewritten(path.read_text(), module))
    (folder / "src" / PACKAGE / "py.typed").touch()
    shutil.copy(ROOT / "LICENSE", folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = f'version = "{project["version"]}"'
    (folder / "pyproject.toml").write_text(PROJECT.read_text().replace('version = "0"', version))


def rewritten(source: str, module: str) -> str:
    """Return a module's source with its imports renamed as in the wheel.

    Raises WheelProblem for an import not of the form `from ROOM… import`.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(_room(each.name) in ROOMS for each in node.names):
            raise WheelProblem(f"{module}, line {node.lineno}: expected from … import, got import")
        if isinstance(node, ast.ImportFrom) and node.module and _room(node.module) in ROOMS:
            line = lines[node.lineno - 1]
            new = f"from {_renamed(node.module)} "
            lines[node.lineno - 1] = line.replace(f"from {node.module} ", new, 1)
    return "".join(lines)


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _room(module: str) -> str:
    return module.partition(".")[0]


def _renamed(module: str) -> str:
    """Return a module's name in the wheel: `agents` is the package itself."""
    room, _, rest = module.partition(".")
    parts = [PACKAGE, *([room] if room != ROOMS[0] else []), *([rest] if rest else [])]
    return ".".join(parts)


def build(folder: Path = DIST) -> Path:
    """Build the wheel into a folder, from this tree alone, and return its path.

    The same tree always gives the same bytes. Raises WheelProblem.
    """
    with tempfile.TemporaryDirectory(prefix="tallyboard-agents-") as name:
        write_project(Path(name, "project"))
        made = Path(name, "wheel")
        uv = [sys.executable, "-m", "uv", "build", "--wheel", "--offline", "--no-config"]
        done = subprocess.run(
            [*uv, "--out-dir", str(made), str(Path(name, "project"))],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise WheelProblem(f"uv cannot build {PROJECT}:\n{done.stderr.strip()}")
        [wheel] = made.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, folder))


def main() -> None:
    """Build the wheel and print its path. Exits with a message on failure."""
    try:
        print(build().relative_to(ROOT))
    except WheelProblem as problem:
        sys.exit(f"agents-wheel: {problem}")


if __name__ == "__main__":
    main()
