"""Cookies stay off plain HTTP, and with this host, when a proxy ends TLS before the product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ASK = """
import django
django.setup()
from support.web.database import migrate
migrate()
from django.test import Client
from support.web.web_fixtures import make_user
client = Client(headers={"X-Forwarded-Proto": "https", "Host": "localhost"})
make_user("operator", "horse-battery-7")
client.get("/account/login/")
client.post("/account/login/", {"login": "operator", "password": "horse-battery-7"})
assert client.get("/account/tokens/").status_code == 200
client.post("/account/reauthenticate/", {"password": "horse-battery-7", "next": "/"})
assert client.post("/account/tokens/", {"scopes": ["read"]}).status_code == 200
for name, cookie in sorted(client.cookies.items()):
    print(name, cookie["path"], repr(cookie["domain"]), bool(cookie["secure"]))
"""


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("https", "printed"),
    [
        pytest.param(
            "0",
            ["tallyboard-8000 / '' False", "tallyboard-csrf-8000 / '' False"],
            marks=pytest.mark.extensive,
        ),
        ("1", ["__Host-tallyboard-8000 / '' True", "__Host-tallyboard-csrf-8000 / '' True"]),
    ],
)
def test_every_cookie_is_of_this_host_over_https_alone(tmp_path, https, printed):
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
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
    assert [line for line in done.stdout.splitlines() if "tallyboard" in line] == printed
