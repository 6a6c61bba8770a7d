"""Cookies stay off plain HTTP when a proxy ends TLS in front of the product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASK = "from dashboard import settings as s; print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"


@pytest.mark.parametrize(("https", "printed"), [("0", "False False"), ("1", "True True")])
def test_cookies_are_secure_behind_https(tmp_path, https, printed):
    environment = {
        **os.environ,
        "TALLYBOARD_DATA_DIR": str(tmp_path),
        "TALLYBOARD_HTTPS": https,
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == printed
