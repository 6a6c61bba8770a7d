"""Users: made, changed and let go by admins; their sessions and tokens; who may do what."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from dashboard.board.live.admission import access_of
from dashboard.core.accounts import sessions, users
from dashboard.core.accounts.models import ApiToken, FirstPassword
from dashboard.core.accounts.sessions import SessionStore
from dashboard.core.accounts.users import UserChangeRefused
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.access import ALLOWED, Role, role_of
from dashboard.core.common.metrics import LIMITED
from dashboard.operate.administration.users import holders, rights
from support.histories.hostile import TEXTS, calm, text
from support.web.web_fixtures import bearer, error_of, make_user

pytestmark = pytest.mark.django_db

PASSWORD, NEW = "horse-battery-7", "staple-correct-8"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def person(role: str, password: str = PASSWORD) -> User:
    """A user of this role with a password."""
    return make_user(role, password)


def browser(user: User, **headers: str) -> Client:
    """Somebody who has logged in and has just given the password once more."""
    client = Client(headers=headers)
    client.force_login(user)
    client.get("/account/sessions/")
    client.post("/account/reauthenticate/", {"password": PASSWORD, "next": "/"})
    return client


def log_in(name: str, password: str) -> tuple[Client, Any]:
    """A browser in which the login form was sent, and its answer."""
    client = Client()
    return client, client.post("/account/login/", {"login": name, "password": password})


def key_of(client: Client) -> str:
    """The key of a browser's session."""
    return str(client.session.session_key)


@pytest.fixture
def admin() -> Client:
    cache.clear()
    return browser(person("admin"))


def audited(action: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Target, outcome and facts of the entries, in order."""
    rows = AuditEntry.objects.filter(action=action).order_by("number")
    return [(row.target, row.outcome, json.loads(row.facts)) for row in rows]


def shown_password(response: Any) -> str:
    """The password that a page shows once."""
    match = re.search(r'<pre tabindex="0"><code>([a-z0-9-]+)</code>', response.content.decode())
    assert match, response.content
    return match[1]


# ---- made, and at the first login ---------------------------------------------------------


def make(admin: Client, name: str = "eve", role: str = "operator") -> str:
    """A new user; the password for the first login."""
    response = admin.post("/users/new/", {"name": name, "role": role})
    assert response.status_code == 200
    return shown_password(response)


def test_a_user_is_made_with_a_role_and_a_password_that_is_shown_once(admin):
    password = make(admin)
    eve = User.objects.get(username="eve")
    assert role_of(eve) is Role.OPERATOR
    assert eve.check_password(password)
    page = admin.get(f"/users/{eve.pk}/").content.decode()
    assert "operator, active" in page
    assert password not in page
    assert audited("user.created") == [("eve", "done", {"role": "operator"})]
    assert password not in str(list(AuditEntry.objects.values()))


def test_the_first_login_leads_to_a_new_password_and_nowhere_else(admin):
    password = make(admin)
    eve, answer = log_in("eve", password)
    change = "/account/password/change/"
    assert answer.status_code == 302
    for path in ("/", "/events/", "/account/tokens/", "/users/"):
        assert eve.get(path)["Location"] == change
    assert eve.post("/account/tokens/", {"scopes": ["read"]})["Location"] == change
    assert eve.get("/api/v1/scenarios").json()["reason"] == "not-authenticated"
    assert eve.get("/metrics").status_code == 401
    assert eve.get("/events/", headers={"HX-Request": "true"})["HX-Redirect"] == change
    assert access_of(key_of(eve)) == "no role"
    assert "must be changed" in eve.get(change).content.decode()
    for same in (password, NEW):
        form = {"oldpassword": password, "password1": same, "password2": same}
        answer = eve.post(change, form)
        assert answer.status_code == (200 if same == password else 302)
    assert answer["Location"] == "/"
    assert eve.get("/").status_code == 200
    assert access_of(key_of(eve)) == "reader"
    assert not FirstPassword.objects.exists()
    again, _ = log_in("eve", NEW)
    assert again.get("/").status_code == 200


def test_a_first_password_ends(admin):
    password = make(admin)
    FirstPassword.objects.update(ends_at=timezone.now())
    eve, answer = log_in("eve", password)
    assert answer.status_code == 200
    assert eve.get("/")["Location"].startswith("/account/login/")


def test_other_logins_need_no_new_password(admin):
    person("operator")
    client, _ = log_in("operator", PASSWORD)
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("form", "field", "message"),
    [
        ({"name": "", "role": "admin"}, "name", "This field is required."),
        ({"name": "a b", "role": "admin"}, "name", "Expected letters, digits"),
        ({"name": "a\u202eb", "role": "admin"}, "name", "Expected letters, digits"),
        ({"name": "x" * 151, "role": "admin"}, "name", "Ensure this value has at most 150"),
        ({"name": "eve", "role": "king"}, "role", "Select a valid choice"),
        ({"name": "eve", "role": ""}, "role", "This field is required."),
        ({"name": "ADMIN", "role": "manager"}, "name", "A user ADMIN exists already."),
    ],
)
def test_a_form_that_makes_no_user_says_why_and_keeps_what_was_typed(admin, form, field, message):
    response = admin.post("/users/new/", form)
    assert response.status_code in (409, 422)
    assert error_of(response, field).startswith(message)
    invalid = f'aria-invalid="true" aria-describedby="{field}_error" id="{field}"'
    assert invalid in response.content.decode()
    assert User.objects.count() == 1
    if form["name"] in ("eve", "ADMIN"):
        assert f'value="{form["name"]}"' in response.content.decode()


def test_what_changes_users_asks_for_the_password_once_more():
    cache.clear()
    client = Client()
    client.force_login(person("admin"))
    answer = client.post("/users/new/", {"name": "eve", "role": "admin"})
    assert answer["Location"].startswith("/account/reauthenticate/")
    assert not User.objects.filter(username="eve").exists()
    form = {"password": PASSWORD, "next": "/users/new/"}
    assert shown_password(client.post("/account/reauthenticate/", form))
    assert User.objects.filter(username="eve").exists()


def test_little_is_kept_of_a_form_that_waits_for_the_password():
    client = Client()
    client.force_login(person("admin"))
    limited = LIMITED.labels("forms")._value.get()
    assert client.post("/users/new/", {"name": "x" * 100_000}).status_code == 413
    assert LIMITED.labels("forms")._value.get() == limited + 1


# ---- roles, and the last admin ------------------------------------------------------------


def test_a_role_is_changed_and_the_change_is_audited(admin):
    user = person("operator")
    for role, expected in (("manager", Role.MANAGER), ("admin", Role.ADMIN), ("none", None)):
        assert admin.post(f"/users/{user.pk}/role/", {"role": role}).status_code == 302
        assert role_of(User.objects.get(pk=user.pk)) is expected
    assert [facts for _, _, facts in audited("user.role")] == [
        {"before": "operator", "to": "manager"},
        {"before": "manager", "to": "admin"},
        {"before": "admin", "to": "none"},
    ]
    assert admin.post(f"/users/{user.pk}/role/", {"role": "king"}).status_code == 422


def test_a_superuser_can_be_made_less(admin):
    user = User.objects.create_superuser("root", password=PASSWORD)
    admin.post(f"/users/{user.pk}/role/", {"role": "manager"})
    assert role_of(User.objects.get(pk=user.pk)) is Role.MANAGER


@pytest.mark.parametrize(
    ("path", "form", "message"),
    [
        ("role", {"role": "manager"}, "You cannot take your own admin role away"),
        ("role", {"role": "none"}, "You cannot take your own admin role away"),
        ("deactivate", {}, "You cannot deactivate yourself"),
        ("password", {}, "Change your own password under Account."),
    ],
)
def test_nobody_does_it_to_themselves(admin, path, form, message):
    person_ = User.objects.get()
    response = admin.post(f"/users/{person_.pk}/{path}/", form)
    assert response.status_code == 409
    assert message in response.content.decode()
    person_.refresh_from_db()
    assert (person_.is_active, role_of(person_)) == (True, Role.ADMIN)
    assert person_.check_password(PASSWORD)
    (entry,) = AuditEntry.objects.filter(outcome__startswith="refused: ").exclude(action="login")
    assert message in entry.outcome


def test_the_last_active_admin_stays():
    """Also where the one who asks is no admin any more by then."""
    first, other = make_user("admin"), User.objects.create(username="second")
    users.set_role(first, other, Role.ADMIN)
    users.set_role(first, other, None)
    for act in (
        lambda: users.deactivate_user(other, first, timezone.now()),
        lambda: users.set_role(other, first, Role.MANAGER),
    ):
        with pytest.raises(UserChangeRefused, match="admin is the last active admin"):
            act()
    users.set_role(first, other, Role.ADMIN)
    users.deactivate_user(first, other, timezone.now())
    with pytest.raises(UserChangeRefused, match="last active admin"):
        users.set_role(other, first, None)
    users.reactivate_user(other)
    users.set_role(other, first, None)
    assert role_of(User.objects.get(pk=first.pk)) is None


# ---- deactivated --------------------------------------------------------------------------


def test_who_is_deactivated_loses_pages_sockets_and_tokens_for_good(admin):
    user = person("operator")
    client, headers = browser(user), bearer(user)
    key = key_of(client)
    assert Client().get("/api/v1/scenarios", headers=headers).status_code == 200
    assert admin.post(f"/users/{user.pk}/deactivate/").status_code == 302
    assert client.get("/")["Location"].startswith("/account/login/")
    assert access_of(key) == "anonymous"
    assert Client().get("/api/v1/scenarios", headers=headers).status_code == 401
    _, answer = log_in("operator", PASSWORD)
    assert answer["Location"] == "/account/inactive/"
    assert audited("user.deactivated") == [("operator", "done", {"sessions": 1, "tokens": 1})]

    assert admin.post(f"/users/{user.pk}/deactivate/").status_code == 409
    assert admin.post(f"/users/{user.pk}/reactivate/").status_code == 302
    assert admin.post(f"/users/{user.pk}/reactivate/").status_code == 409
    assert client.get("/")["Location"].startswith("/account/login/"), "the session stays ended"
    assert Client().get("/api/v1/scenarios", headers=headers).status_code == 401, "and the token"
    assert log_in("operator", PASSWORD)[0].get("/").status_code == 200


def test_a_session_from_before_sessions_were_noted_ends_too(admin):
    user = person("operator")
    client = Client()
    client.force_login(user)
    assert not UserSession.objects.filter(user=user).exists()
    assert SessionStore().exists(key_of(client))
    admin.post(f"/users/{user.pk}/deactivate/")
    assert SessionStore().exists(key_of(client)) is False
    assert client.get("/")["Location"].startswith("/account/login/")


# ---- passwords and second factors ---------------------------------------------------------


def test_a_password_is_given_anew(admin):
    user = person("operator")
    client, headers = browser(user), bearer(user)
    others = bearer(person("manager"))
    password = shown_password(admin.post(f"/users/{user.pk}/password/"))
    for token, status in ((headers, 401), (others, 200)):
        assert Client().get("/api/v1/scenarios", headers=token).status_code == status
    assert client.get("/")["Location"].startswith("/account/login/")
    assert log_in("operator", PASSWORD)[1].status_code == 200
    assert log_in("operator", password)[0].get("/")["Location"] == "/account/password/change/"
    assert audited("user.password-reset") == [("operator", "done", {"sessions": 1, "tokens": 1})]


def test_a_second_factor_is_taken_away(admin):
    user = person("operator")
    TOTP.activate(user, generate_totp_secret())
    assert "Yes, remove it" in admin.get(f"/users/{user.pk}/").content.decode()
    assert admin.post(f"/users/{user.pk}/factor/").status_code == 302
    assert not Authenticator.objects.exists()
    assert admin.post(f"/users/{user.pk}/factor/").status_code == 409
    assert [outcome for _, outcome, _ in audited("factor.removed")] == [
        "done", "refused: operator has no second factor.",
    ]  # fmt: skip


# ---- sessions -----------------------------------------------------------------------------


def test_everybody_sees_and_ends_the_own_sessions():
    cache.clear()
    user = person("manager")
    here, there = browser(user, user_agent=FIREFOX), browser(user)
    page = here.get("/account/sessions/").content.decode()
    assert "Firefox on Linux <small>this one</small>" in page
    assert page.count("127.0.0.1</td>") == 2
    numbers = re.findall(r'name="session" value="(\d+)"', page)
    assert len(numbers) == 1, "the one that asks is not ended"
    assert here.post("/account/sessions/", {"session": numbers[0]}).status_code == 302
    assert there.get("/").status_code == 302
    assert here.get("/").status_code == 200
    assert audited("session.ended") == [("manager", "done", {"sessions": 1})]


def test_all_other_sessions_end_at_once():
    cache.clear()
    user = person("manager")
    here, *others = [browser(user) for _ in range(3)]
    here.post("/account/sessions/", {})
    assert [client.get("/").status_code for client in others] == [200, 200], "nothing is not all"
    here.post("/account/sessions/", {"all": "1"})
    assert [client.get("/").status_code for client in (here, *others)] == [200, 302, 302]


def test_an_own_password_that_is_changed_ends_the_other_sessions():
    cache.clear()
    user = person("manager")
    here, there = browser(user), browser(user)
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert here.post("/account/password/change/", form).status_code == 302
    assert (here.get("/").status_code, there.get("/").status_code) == (200, 302)
    assert UserSession.objects.filter(user=user).count() == 1


def test_nobody_ends_the_sessions_of_others(admin):
    user = person("manager")
    client = browser(user)
    for mine in UserSession.objects.exclude(user=user):
        client.post("/account/sessions/", {"session": str(mine.pk)})
    for odd in ("", "x", "-1", "9" * 40, "\u0661"):
        client.post("/account/sessions/", {"session": odd})
    assert admin.get("/users/").status_code == 200
    assert {facts["sessions"] for _, _, facts in audited("session.ended")} == {0}


def test_an_admin_ends_anybodys(admin):
    user = person("manager")
    client = browser(user)
    assert "127.0.0.1</td>" in admin.get(f"/users/{user.pk}/").content.decode()
    admin.post(f"/users/{user.pk}/sessions/", {"all": "1"})
    assert client.get("/").status_code == 302
    own = User.objects.get(username="admin")
    admin.post(f"/users/{own.pk}/sessions/", {"all": "1"})
    assert admin.get("/users/").status_code == 200, "the one that asks stays"


def test_a_sessions_use_is_noted_once_a_minute(monkeypatch):
    seen, clock = sessions.SessionUses(), [100.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: clock[0])
    assert [seen.due("a"), seen.due("a"), seen.due("b")] == [True, False, True]
    clock[0] += sessions.SEEN_EVERY_S
    assert [seen.due("a"), seen.due("a")] == [True, False]
    monkeypatch.setattr(sessions, "REMEMBERED", 2)
    assert seen.due("c")
    assert len(seen._at) == 2


@pytest.mark.parametrize(
    ("user_agent", "device"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("curl/8.0", "unknown"),
        ("", "unknown"),
    ],
)
def test_devices_by_what_they_call_themselves(user_agent: str, device: str):
    assert sessions.device(user_agent) == device


# ---- the lists ----------------------------------------------------------------------------


def listed(client: Client, query: str = "") -> list[str]:
    page = client.get(f"/users/{query}").content.decode()
    return re.findall(r'class="asset-name" href="/users/\d+/" title="([^"]*)"', page)


def test_the_list_says_what_is_known_of_each(admin):
    user = person("operator")
    browser(user)
    bearer(user)
    TOTP.activate(user, generate_totp_secret())
    make(admin, "zoe", "manager")
    names = [name.strip("\u2068\u2069") for name in listed(admin)]
    assert names == ["admin", "operator", "zoe"]
    page = admin.get("/users/").content.decode()
    row = page.split(f'data-key="{user.pk}"')[1].split("</tr>")[0]
    cells = [re.sub("<[^>]*>", "", cell).strip() for cell in row.split("<td")[1:]]
    texts = [cell.rpartition(">")[2] for cell in cells]
    assert re.fullmatch(r"[0-9:]{8} UTC", texts.pop(2))
    assert texts == ["operator", "active", "yes", "1", "1"]
    assert "to set a password" in page
    assert len(listed(admin, "?q=OPER")) == 1
    assert "Nobody of that name" in admin.get("/users/?q=nope").content.decode()


def test_the_list_takes_as_many_queries_for_many_as_for_few(admin, django_assert_max_num_queries):
    for n in range(30):
        User.objects.create(username=f"user-{n}")
    with django_assert_max_num_queries(20):
        assert len(listed(admin)) == 31


def test_all_tokens_are_listed_and_can_be_revoked(admin):
    user = person("operator")
    headers = bearer(user, "read")
    token = ApiToken.objects.get()
    page = admin.get("/users/tokens/").content.decode()
    assert token.prefix in page
    assert f'href="/users/{user.pk}/"' in page
    form = {"prefix": token.prefix, "back": "tokens"}
    assert admin.post(f"/users/{user.pk}/tokens/", form)["Location"] == "/users/tokens/"
    assert Client().get("/api/v1/scenarios", headers=headers).status_code == 401
    admin.post(f"/users/{user.pk}/tokens/", {"prefix": token.prefix})
    assert len(audited("token.revoked")) == 1
    admin.get("/users/tokens/")  # which says once what was done
    assert token.prefix not in admin.get("/users/tokens/").content.decode()


def test_the_roles_are_those_that_the_code_goes_by(admin):
    make_user("operator")
    able = rights()["Over the board and the API"]
    for role in Role:
        assert sum(role in right.roles for right in able) == len(ALLOWED[role])
    assert holders() == {Role.ADMIN: 1, Role.OPERATOR: 1, Role.MANAGER: 0}
    text = admin.get("/users/roles/").content.decode()
    assert "set, vote, release, purge, schedule, cancel, mute" in text


# ---- hostile input ------------------------------------------------------------------------


@text
@pytest.mark.spread(4)
def test_hostile_texts_in_the_forms(admin, text: str):
    user = person("operator")
    forms: dict[str, dict[str, str]] = {
        "/users/new/": {"name": text, "role": "manager"},
        f"/users/{user.pk}/role/": {"role": text},
        f"/users/{user.pk}/sessions/": {"session": text},
        f"/users/{user.pk}/tokens/": {"prefix": text, "back": text},
        "/account/sessions/": {"session": text},
    }
    for path, form in forms.items():
        sent = {name: value.encode(errors="replace").decode() for name, value in form.items()}
        response = admin.post(path, sent)
        calm(response, text)
        assert response.status_code in (302, 409, 413, 422), path
        assert response.status_code == 413 or text != TEXTS["long"]
    user.refresh_from_db()
    assert (role_of(user), User.objects.count()) == (Role.OPERATOR, 2)
    calm(admin.get("/users/", {"q": text[:5_000].encode(errors="replace").decode()}), text)


def test_a_number_that_no_user_has(admin):
    for number in (0, 10**18, 10**40):
        assert admin.get(f"/users/{number}/").status_code == 404
        assert admin.post(f"/users/{number}/deactivate/").status_code == 404


def test_a_name_is_text_wherever_it_is_shown(admin):
    odd = User.objects.create(username="<script>alert(1)</script>\u202e")
    for path in ("/users/", f"/users/{odd.pk}/", "/users/tokens/"):
        calm(admin.get(path), "")


def test_a_first_password_can_be_read_to_somebody():
    password = users.one_time_password()
    assert re.fullmatch("([a-z2-9]{4}-){3}[a-z2-9]{4}", password)
    assert not set("l1o0i") & set(password)
    assert users.one_time_password() != password
    assert timedelta(days=1) < users.GOOD_FOR < timedelta(days=31)
