"""The captcha of the login as a program solves it that has no browser."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from altcha import Challenge, Payload, solve_challenge
from django.test import RequestFactory, override_settings

from dashboard.core.accounts.login_guard import client_of


def challenge_in(page: str) -> dict[str, Any] | None:
    """The challenge of a login page, None where it has none."""
    held = re.search(r'data-challenge="([^"]*)"', page)
    return json.loads(html.unescape(held[1])) if held else None


def solved(page: str) -> str:
    """What a browser posts for the challenge of a page."""
    held = challenge_in(page)
    assert held, "the page has no challenge"
    challenge = Challenge.from_dict(held)
    solution = solve_challenge(challenge)
    assert solution
    return Payload(challenge, solution).to_base64()


def name_of(address: str, browser: str, secret: str) -> str:
    """The name that a client has on the board of a product with this secret of its own."""
    request = RequestFactory().get("/", REMOTE_ADDR=address, HTTP_USER_AGENT=browser)
    with override_settings(SECRET_KEY=secret):
        return client_of(request)
