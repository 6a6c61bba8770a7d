"""The guard of the login: which actions count, who must solve a captcha, and what that changes."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db import DatabaseError
from django.test import Client, RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from dashboard.core.accounts import login_guard
from dashboard.core.accounts.login_guard import CaptchaRefused, client_of, redeem
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from domain.records import Override, Vote
from support.web.captchas import challenge_in, solved
from support.web.web_fixtures import bearer, error_of, make_user, show

pytestmark = pytest.mark.django_db

LOGIN = "/account/login/"
PASSWORD = "horse-battery-7"
HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Firefox/145.0"

Event = tuple[str, str]


@pytest.fixture(autouse=True)
def easy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captcha takes a few tries."""
    monkeypatch.setattr(login_guard, "FEWEST_TRIES", 2)
    monkeypatch.setattr(login_guard, "MOST_TRIES", 4)


@pytest.fixture
def admin() -> User:
    return make_user("admin", PASSWORD)


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """Client and action of each record of the security log."""
    noted: list[Event] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noted.append((getattr(record, "client", ""), getattr(record, "action", "")))

    log, notes = logging.getLogger("tallyboard.security"), Notes()
    before = log.level
    log.addHandler(notes)
    log.setLevel(logging.INFO)
    yield noted
    log.removeHandler(notes)
    log.setLevel(before)


def visitor(address: str = HOME, browser: str = BROWSER, **options: Any) -> Client:
    """A browser at this address that says that it is `browser`."""
    return Client(REMOTE_ADDR=address, HTTP_USER_AGENT=browser, **options)


def name_of(address: str = HOME, browser: str = BROWSER) -> str:
    """The client's name on the board."""
    return client_of(RequestFactory().get("/", REMOTE_ADDR=address, HTTP_USER_AGENT=browser))


def challenged(client: str | None = None, **more: Any) -> str:
    """Show a client as challenged, as the pipeline has just reported; return its name."""
    now, name = now_ms(), client or name_of()
    vote = Vote("login-guard", "challenge", now, now, 1, now + 3_600_000, 1)
    show("clients", name, "challenge", **({"votes": (vote,)} | more))
    return name


def log_in(client: Client, password: str = PASSWORD, name: str = "admin", **more: str) -> Any:
    return client.post(LOGIN, {"login": name, "password": password} | more)


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("tallyboard_captchas_total", {"outcome": outcome}) or 0.0


# ---- clients ----------------------------------------------------------------------------------


def test_a_client_is_an_address_with_a_browser_and_tells_neither() -> None:
    name = name_of()
    assert re.fullmatch("client-[0-9a-f]{16}", name)
    assert name == name_of()
    assert len({name, name_of(ELSEWHERE), name_of(browser="curl/8"), name_of(browser="")}) == 4


def test_a_client_has_another_name_where_the_secret_is_another(settings: Any) -> None:
    name = name_of()
    settings.SECRET_KEY = "x" * 50
    assert name_of() != name


def test_the_addresses_of_one_network_of_ipv6_are_one_client() -> None:
    assert name_of("2001:db8::1") == name_of("2001:db8::ffff:2")
    assert name_of("2001:db8::1") != name_of("2001:db8:0:1::1")


def test_behind_a_proxy_the_address_is_the_one_that_it_gives(settings: Any) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    asks = RequestFactory()
    agent: dict[str, Any] = {"HTTP_USER_AGENT": BROWSER, "REMOTE_ADDR": "10.0.0.1"}
    one = client_of(asks.get("/", HTTP_X_FORWARDED_FOR=HOME, **agent))
    other = client_of(asks.get("/", HTTP_X_FORWARDED_FOR=ELSEWHERE, **agent))
    forged = client_of(asks.get("/", HTTP_X_FORWARDED_FOR=f"{ELSEWHERE}, {HOME}", **agent))
    assert one != other
    assert forged == one


# ---- which actions count ----------------------------------------------------------------------


def test_each_post_of_the_login_counts_once(admin: User, events: list[Event]) -> None:
    browser = visitor()
    log_in(browser, "wrong")
    log_in(browser, "")
    log_in(browser)
    assert is_in(browser)
    assert events == [(name_of(), "login")] * 3


def test_throttled_posts_count_too(admin: User, events: list[Event]) -> None:
    browser = visitor()
    for _ in range(6):
        log_in(browser, "wrong")
    for _ in range(25):
        log_in(browser, "", "")
    actions = [action for _, action in events]
    assert actions == ["login"] * 5 + ["login-throttled"] + ["login"] * 24 + ["login-throttled"]


def test_loading_pages_counts_nothing(admin: User, events: list[Event]) -> None:
    browser = visitor()
    for path in (LOGIN, "/", "/nothing/here/", "/healthz", "/api/v1/scenarios"):
        browser.get(path)
    browser.force_login(admin)
    browser.get("/account/password/change/")
    browser.post("/account/logout/")
    assert events == []


def test_a_refused_token_counts_and_one_without_the_scope_does_not(
    admin: User, events: list[Event]
) -> None:
    browser, wrong = visitor(), {"Authorization": f"Bearer tb_00000000_{'0' * 64}"}
    assert browser.get("/api/v1/scenarios", headers=wrong).status_code == 401
    assert browser.get("/metrics", headers=wrong).status_code == 401
    narrow = bearer(admin, "metrics")
    assert browser.get("/api/v1/scenarios", headers=narrow).status_code == 403
    assert browser.get("/metrics", headers=narrow).status_code == 200
    assert events == [(name_of(), "token-refused")] * 2


def test_a_form_without_the_token_of_its_page_counts(admin: User, events: list[Event]) -> None:
    browser = visitor(enforce_csrf_checks=True)
    page = log_in(browser)
    assert page.status_code == 403
    assert "The form was not accepted" in page.content.decode()
    assert events == [(name_of(), "form-refused")]


def test_a_refused_code_of_a_second_factor_counts(admin: User, events: list[Event]) -> None:
    TOTP.activate(admin, generate_totp_secret())
    browser = visitor()
    log_in(browser)
    assert browser.post("/account/2fa/authenticate/", {"code": "000000"}).status_code == 200
    assert browser.post("/account/2fa/authenticate/", {}).status_code == 200
    client = name_of()
    assert events == [(client, "login"), (client, "form-refused"), (client, "form-refused")]


# ---- who must solve a captcha -----------------------------------------------------------------


def test_nobody_else_sees_a_captcha(admin: User) -> None:
    challenged()
    assert challenge_in(visitor().get(LOGIN).content.decode())
    for browser in (visitor(ELSEWHERE), visitor(browser="curl/8")):
        assert challenge_in(browser.get(LOGIN).content.decode()) is None
        assert log_in(browser).status_code == 302


@pytest.mark.parametrize("state", ["verified", "quiet"])
def test_a_client_in_another_state_sees_none(state: str) -> None:
    show("clients", name_of(), state)
    assert challenge_in(visitor().get(LOGIN).content.decode()) is None


def test_a_challenge_ends_with_its_votes_though_the_pipeline_is_dead(admin: User) -> None:
    now = now_ms()
    old = Vote("login-guard", "challenge", now, now, 1, now - 1, 1)
    silent = Vote("login-guard", "challenge", now, now, 1, now + 1, 1, silent=now)
    for vote in (old, silent):
        challenged(votes=(vote,))
        assert log_in(visitor()).status_code == 302


def test_a_pinned_challenge_holds_until_the_pin_ends(admin: User) -> None:
    pin = Override("challenge", None, "olga", "drill", "c", 1)
    challenged(votes=(), override=pin)
    assert "captcha" in log_in(visitor()).context["form"].errors


def test_a_state_that_cannot_be_read_locks_nobody_out(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    challenged()
    unknown = counted("unknown")

    def fail(_scenario: str, _client: str) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(login_guard, "record_of", fail)
    assert log_in(visitor()).status_code == 302
    assert counted("unknown") == unknown + 1


def test_without_the_scenario_nobody_is_asked(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    challenged()
    others = {name: each for name, each in scenarios().items() if name != "clients"}
    monkeypatch.setattr(login_guard, "scenarios", lambda: others)
    assert log_in(visitor()).status_code == 302


# ---- the captcha ------------------------------------------------------------------------------


def test_a_challenged_client_needs_a_captcha_and_keeps_what_was_typed(
    admin: User, events: list[Event]
) -> None:
    client = challenged()
    browser, missing = visitor(), counted("missing")
    page = log_in(browser)
    body = page.content.decode()
    assert not is_in(browser)
    assert error_of(page, "captcha") == (
        "This browser has not been checked. Wait until the check is done, then log in."
    )
    assert 'value="admin"' in body
    assert PASSWORD not in body
    assert counted("missing") == missing + 1
    assert events == [(client, "login")]


def test_whoever_solves_it_logs_in_and_is_verified(admin: User, events: list[Event]) -> None:
    client = challenged()
    browser = visitor()
    answer = solved(browser.get(LOGIN).content.decode())
    assert log_in(browser, captcha=answer).status_code == 302
    assert is_in(browser)
    assert events == [(client, "verified"), (client, "login")]


def test_who_then_gives_a_wrong_password_is_asked_for_no_other(admin: User) -> None:
    challenged()
    browser = visitor()
    answer = solved(browser.get(LOGIN).content.decode())
    page = log_in(browser, "wrong", captcha=answer)
    assert "The username and/or password you specified are not correct" in page.content.decode()
    assert challenge_in(page.content.decode()) is None
    assert log_in(browser).status_code == 302


def test_it_is_solved_though_the_rest_of_the_form_is_empty(admin: User) -> None:
    challenged()
    browser = visitor()
    answer = solved(browser.get(LOGIN).content.decode())
    page = log_in(browser, "", captcha=answer)
    assert error_of(page, "password") == "This field is required."
    assert challenge_in(page.content.decode()) is None
    assert log_in(browser).status_code == 302


def test_after_a_quarter_of_an_hour_another_is_asked_for(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = challenged()
    monkeypatch.setattr(login_guard, "VERIFIED_S", 0)
    login_guard.verify(client)
    assert challenge_in(visitor().get(LOGIN).content.decode())


def refused(answer: str, reason: str, browser: Client | None = None) -> str:
    """Post a solution that does not count, and return what the form says of it."""
    browser, before = browser or visitor(), counted(reason)
    page = log_in(browser, captcha=answer)
    assert not is_in(browser)
    assert counted(reason) == before + 1
    assert challenge_in(page.content.decode()), "there is another challenge to solve"
    return error_of(page, "captcha")


def test_a_solution_counts_once(admin: User) -> None:
    client = challenged()
    answer = solved(visitor().get(LOGIN).content.decode())
    assert log_in(visitor(), captcha=answer).status_code == 302
    caches["captchas"].delete(f"verified:{client}")
    padded = base64.b64encode(base64.b64decode(answer) + b" ").decode()
    for again in (answer, padded):
        assert "was used already" in refused(again, "replayed")


def test_a_solution_of_another_client_does_not_count(admin: User) -> None:
    challenged()
    challenged(name_of(ELSEWHERE))
    answer = solved(visitor(ELSEWHERE).get(LOGIN).content.decode())
    assert "has failed" in refused(answer, "wrong")
    assert log_in(visitor(ELSEWHERE), captcha=answer).status_code == 302


def test_a_solution_that_comes_too_late_does_not_count(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    challenged()
    monkeypatch.setattr(login_guard, "LIFETIME_S", -2)
    answer = solved(visitor().get(LOGIN).content.decode())
    assert "has expired" in refused(answer, "expired")


def changed(answer: str, part: str, name: str, value: Any) -> str:
    """The same solution with another value somewhere."""
    payload = json.loads(base64.b64decode(answer))
    place = payload["challenge"]["parameters"] if part == "parameters" else payload[part]
    place[name] = value
    return base64.b64encode(json.dumps(payload).encode()).decode()


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("solution", "derivedKey", "00" * 32),
        ("solution", "derivedKey", None),
        ("challenge", "signature", "00" * 32),
        ("challenge", "signature", None),
        ("parameters", "expiresAt", 4_000_000_000),
        ("parameters", "keySignature", None),
        ("parameters", "cost", 2),
        ("parameters", "algorithm", "SHA-256"),
        ("parameters", "keyPrefix", ""),
    ],
)
def test_a_solution_that_was_changed_does_not_count(
    admin: User, part: str, name: str, value: Any
) -> None:
    challenged()
    answer = changed(solved(visitor().get(LOGIN).content.decode()), part, name, value)
    assert "has failed" in refused(answer, "wrong")


def test_a_solution_that_is_too_long_does_not_count(admin: User) -> None:
    challenged()
    assert "at most 4000 characters" in refused("x" * 4_001, "wrong")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
PARAMETERS = st.fixed_dictionaries(
    dict.fromkeys(("algorithm", "nonce", "salt", "cost"), JSON),
    optional=dict.fromkeys(("keyLength", "keyPrefix", "keySignature", "expiresAt", "data"), JSON),
)
PAYLOADS = JSON | st.fixed_dictionaries(
    {
        "challenge": JSON | st.fixed_dictionaries({"parameters": PARAMETERS, "signature": JSON}),
        "solution": JSON | st.fixed_dictionaries({"counter": JSON, "derivedKey": JSON}),
    }
)


@given(PAYLOADS)
def test_whatever_is_posted_is_refused_and_breaks_nothing(payload: Any) -> None:
    text = base64.b64encode(json.dumps(payload).encode()).decode()
    with pytest.raises(CaptchaRefused):
        redeem("client-0", text)


@given(st.text())
def test_a_text_that_is_no_solution_is_refused(text: str) -> None:
    with pytest.raises(CaptchaRefused):
        redeem("client-0", text)


def test_without_javascript_the_page_says_what_to_do() -> None:
    challenged()
    body = visitor().get(LOGIN).content.decode()
    assert "Switch JavaScript on for this page" in body
    assert 'type="module"></script>' in body
    assert "captcha" not in visitor(ELSEWHERE).get(LOGIN).content.decode()


class Shipping(logging.Handler):
    """A handler of the log that ships nothing; `flushed` counts how often it was to."""

    flushed = 0

    def emit(self, record: logging.LogRecord) -> None:
        pass

    def flush(self) -> None:
        self.flushed += 1
        raise OSError("the broker is gone")


def test_a_log_that_cannot_be_shipped_locks_nobody_out(admin: User) -> None:
    challenged()
    browser, handler = visitor(), Shipping()
    answer = solved(browser.get(LOGIN).content.decode())
    for name in ("tallyboard.security", ""):  # wherever the handler is
        logging.getLogger(name).addHandler(handler)
    log_in(browser, "wrong", captcha=answer)
    for name in ("tallyboard.security", ""):
        logging.getLogger(name).removeHandler(handler)
    assert handler.flushed == 2
    assert log_in(browser).status_code == 302


# ---- the limits hold --------------------------------------------------------------------------


def test_a_captcha_lifts_no_limit_of_the_login(admin: User) -> None:
    challenged()
    browser = visitor()
    answer = solved(browser.get(LOGIN).content.decode())
    log_in(browser, "wrong", captcha=answer)
    for _ in range(4):
        log_in(browser, "wrong")
    assert "Too many failed login attempts" in log_in(browser).content.decode()
    answers = [log_in(browser, "", "").status_code for _ in range(25)]
    assert answers == [200] * 24 + [429]


def test_a_password_is_not_tried_without_the_captcha(admin: User) -> None:
    challenged()
    for _ in range(9):
        log_in(visitor(), "wrong")
    assert log_in(visitor(ELSEWHERE)).status_code == 302, "no wrong password was counted"


def test_an_attacker_with_many_browsers_meets_the_limits_of_address_and_name(admin: User) -> None:
    """Another User-Agent is another client, which no captcha stops; the limits do."""
    answers = [log_in(visitor(browser=f"bot/{n}"), f"guess-{n}") for n in range(40)]
    tried = [each for each in answers if b"are not correct" in each.content]
    assert len(tried) == 5
    assert [each.status_code for each in answers[30:]] == [429] * 10


def test_a_person_who_types_badly_gets_in(admin: User, events: list[Event]) -> None:
    browser = visitor()
    for password in ("horse-battery-8", "Horse-Battery-7", "horsebattery7", "horse-battery"):
        page = log_in(browser, password)
        assert 'value="admin"' in page.content.decode()
        assert password not in page.content.decode()
    assert log_in(browser).status_code == 302
    assert [action for _, action in events] == ["login"] * 5
