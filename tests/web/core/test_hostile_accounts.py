"""Hostile input in the forms that change a login: an error of the form or a refusal, no fault."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.core.common.metrics import LIMITED
from support.histories.hostile import TEXTS, calm, text, texts_for
from support.web.web_fixtures import make_user

pytestmark = pytest.mark.django_db

PASSWORD, NEW = "horse-battery-7", "staple-correct-8"
CHANGE, CONFIRM = "/account/password/change/", "/account/reauthenticate/"
STEP, CONFIRM_BY_CODE = "/account/2fa/authenticate/", "/account/2fa/reauthenticate/"
ACTIVATE, DEACTIVATE = "/account/2fa/totp/activate/", "/account/2fa/totp/deactivate/"
CODES, LOGOUT = "/account/2fa/recovery-codes/generate/", "/account/logout/"
FORM_TYPE = "application/x-www-form-urlencoded"

FORMS: dict[str, dict[str, str]] = {
    CHANGE: {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW},
    CONFIRM: {"password": PASSWORD, "next": "/account/2fa/"},
    ACTIVATE: {"code": "000000"},
    STEP: {"code": "000000"},
    CONFIRM_BY_CODE: {"code": "000000", "next": "/account/2fa/"},
    DEACTIVATE: {},
    CODES: {},
    LOGOUT: {"next": "/"},
}
"""Each form that a login is changed or left by, with what its fields would hold."""
FIELDS = [(path, field) for path, form in FORMS.items() for field in form if field != "next"]


@pytest.fixture
def person() -> User:
    cache.clear()
    return make_user("operator", PASSWORD)


def at(path: str, user: User) -> Client:
    """A browser in which this form is the next step: logged in, and confirmed where it must be."""
    client = Client()
    if path in (STEP, DEACTIVATE, CODES, CONFIRM_BY_CODE):
        TOTP.activate(user, generate_totp_secret())
        RecoveryCodes.activate(user)
    if path == STEP:
        answer = client.post("/account/login/", {"login": "operator", "password": PASSWORD})
        assert answer["Location"] == STEP
        return client
    client.force_login(user)
    if path in (ACTIVATE, DEACTIVATE, CODES):
        confirmed = client.post(CONFIRM, {"password": PASSWORD, "next": path})
        assert confirmed["Location"] == path
        client.get(path)  # which makes the secret that a code is checked against
    return client


def held(user: User) -> tuple[str, set[tuple[str, str]]]:
    """The user's password, and what second factors there are."""
    user.refresh_from_db()
    factors = Authenticator.objects.filter(user=user)
    return user.password, {(one.type, str(one.data)) for one in factors}


def encoded(form: dict[str, str]) -> str:
    """The form as bytes may come, half a pair of surrogates included."""
    return urlencode(form, errors="surrogatepass")


def send(client: Client, path: str, body: str | bytes, kind: str = FORM_TYPE) -> Any:
    return client.generic("POST", path, body, content_type=kind)


def refused(response: Any, text: str = "") -> None:
    """The form says what is wrong with it; one that is too large is not read at all."""
    if text == TEXTS["long"]:
        assert response.status_code == 413
        assert b"Too much was sent" in response.content
    else:
        assert response.status_code == 200
        assert b'class="field-errors' in response.content


@pytest.mark.spread(3)
@pytest.mark.parametrize(("path", "field"), FIELDS)
def test_a_field_of_a_form(person, path: str, field: str):
    client = at(path, person)
    before = held(person)
    for hostile in texts_for(f"{path} {field}"):
        cache.clear()  # which counts what was tried
        response = send(client, path, encoded(FORMS[path] | {field: hostile}))
        calm(response, hostile)
        refused(response, hostile)
        assert held(person) == before


@pytest.mark.parametrize("path", [CONFIRM, CONFIRM_BY_CODE, LOGOUT])
@text
@pytest.mark.spread(7)
def test_where_to_go_next_is_on_this_site(person, path: str, text: str):
    client = at(path, person)
    response = send(client, path, encoded(FORMS[path] | {"next": text}))
    calm(response, text)
    if text == TEXTS["long"]:
        refused(response, text)
    elif path != CONFIRM_BY_CODE:  # whose code is wrong
        assert response.status_code == 302
        target = urlsplit(response["Location"])
        assert (target.scheme, target.netloc) == ("", "")


@pytest.mark.parametrize("path", [DEACTIVATE, CODES, LOGOUT])
def test_what_no_field_asks_for_is_passed_over(person, path: str):
    client = at(path, person)
    texts = {name: hostile for name, hostile in TEXTS.items() if name != "long"}
    form = {f"field{n}": hostile for n, hostile in enumerate(texts.values())} | texts
    response = send(client, path, encoded(form))
    calm(response, "")
    assert response.status_code == 302


@text
@pytest.mark.spread(2)
def test_a_new_password_typed_twice(person, text: str):
    client = at(CHANGE, person)
    form = FORMS[CHANGE] | {"password1": text, "password2": text}
    response = send(client, CHANGE, encoded(form))
    calm(response, text)
    person.refresh_from_db()
    changed = not person.check_password(PASSWORD)
    assert changed == (response.status_code == 302)
    if len(text) < 8 or "\0" in text or text == TEXTS["long"]:
        refused(response, text)


SHAPES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "list": lambda field, value: {field: [value, "x" * 300, "\0"]},
    "brackets": lambda field, value: {f"{field}[]": [value, value], f"{field}[a][b]": value},
    "file": lambda field, _: {field: SimpleUploadedFile("a\0../b", b"\0\xff" * 1000, "image/png")},
    "missing": lambda *_: {},
}


@pytest.mark.spread(3)
@pytest.mark.parametrize(("path", "field"), FIELDS)
def test_a_field_of_another_shape(person, path: str, field: str):
    client = at(path, person)
    before = held(person)
    for shape in SHAPES.values():
        cache.clear()
        form: dict[str, Any] = dict(FORMS[path])
        response = client.post(path, form | shape(field, form.pop(field)))
        calm(response, "")
        refused(response)
        assert held(person) == before


BODIES: dict[str, tuple[bytes, str]] = {
    "json": (b'{"code": ["000000"], "password": 7}', "application/json"),
    "text": (b"code=000000", "text/plain"),
    "nothing": (b"", FORM_TYPE),
    "no utf-8": (b"code=%ff%fe&password=%ff&oldpassword=%ff&password1=%ff", FORM_TYPE),
    "bad percents": (b"code=%zz&%&=&&password=%", FORM_TYPE),
    "unknown charset": (b"code=1", f"{FORM_TYPE}; charset=nonsense"),
    "other charset": (b"code=+ADw-", f"{FORM_TYPE}; charset=utf-7"),
    "no boundary": (b"code=1", "multipart/form-data"),
    "half a part": (
        b'--x\r\nContent-Disposition: form-data; name="code"\r\n\r\n1',
        "multipart/form-data; boundary=x",
    ),
    "bad encoding": (
        (
            b'--x\r\nContent-Disposition: form-data; name="code"\r\n'
            b"Content-Transfer-Encoding: base64\r\n\r\n!\r\n--x--\r\n"
        ),
        "multipart/form-data; boundary=x",
    ),
    "too large": (b"code=" + b"x" * 3_000_000, FORM_TYPE),
    "too many fields": (b"&".join(b"f%d=" % n for n in range(2_000)), FORM_TYPE),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("path", dict(FIELDS))
def test_a_body_that_is_no_form(person, path: str):
    client = at(path, person)
    before = held(person)
    for body, kind in BODIES.values():
        cache.clear()
        response = send(client, path, body, kind)
        calm(response, "")
        assert response.status_code in (200, 400, 413)
        assert held(person) == before


@pytest.mark.parametrize("path", [ACTIVATE, DEACTIVATE, CODES])
def test_little_is_kept_of_a_form_that_waits_for_the_password(person, path: str):
    """The login library keeps it in the session."""
    client = Client()
    client.force_login(person)
    if path != ACTIVATE:
        TOTP.activate(person, generate_totp_secret())
    before, limited = held(person), LIMITED.labels("forms")._value.get()
    for size, status in ((100, 302), (500_000, 413)):
        response = send(client, path, encoded({"code": token_hex(size)}))
        assert response.status_code == status
        assert held(person) == before
        assert all(len(row.session_data) < 10_000 for row in Session.objects.all())
    assert LIMITED.labels("forms")._value.get() == limited + 1


@pytest.mark.parametrize("length", ["", "many", "-1", "9" * 30])
def test_a_form_of_unknown_length_is_not_read(person, length: str):
    client = at(CHANGE, person)
    environ: dict[str, Any] = {"CONTENT_LENGTH": length}
    if not length:
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
    response = client.generic("POST", CHANGE, "password1=x", FORM_TYPE, **environ)
    assert response.status_code == (413 if length.isdecimal() else 411)
    assert b"Too much was sent" in response.content
