"""Unit tests of the browser's modules, which node runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = sorted((Path(__file__).parents[2] / "node").glob("*.test.mjs"))
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_the_modules_keep_their_unit_tests(path: Path) -> None:
    assert NODE
    command = [NODE, "--test", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
