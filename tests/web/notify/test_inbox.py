"""A user's own messages: each once, counted while unread, marked as read by its user alone."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.models import NOT_SENT, Message
from dashboard.notify.notifications.outbox import MessageDraft, Recipient, put
from support.web.web_fixtures import bearer, make_user

pytestmark = pytest.mark.django_db
INBOX = "/account/messages/"


def letter(user: Any, subject: str, means: str = "mail", **more: Any) -> Message:
    draft = MessageDraft("opened", subject, f"Text of {subject}", **more)
    return put(Recipient(means, user.username, user=user), draft, now_ms())


def test_one_sees_ones_own_messages_each_once():
    client, nina, olaf = Client(), make_user("operator"), make_user("manager")
    client.force_login(nina)
    for means in ("mail", "push"):
        letter(nina, "shop under attack", means, occasion="o1")
    letter(nina, "forum under attack")
    letter(olaf, "not hers")
    Message.objects.filter(pk=letter(nina, "never sent").pk).update(status=NOT_SENT)
    page: Any = client.get(INBOX)
    subjects = [row.subject for row in page.context["page"].rows]
    assert sorted(subjects) == ["forum under attack", "shop under attack"]
    html = page.content.decode()
    assert "Text of shop under attack" in html
    assert "My messages (2)" in html


def test_a_message_is_read_once_its_user_says_so():
    client, nina, olaf = Client(), make_user("operator"), make_user("manager")
    own, other, alien = letter(nina, "a"), letter(nina, "b"), letter(olaf, "c")
    client.force_login(nina)
    client.get(INBOX)
    assert Message.objects.unread().count() == 3
    client.post(f"{INBOX}read/", {"message": str(alien.pk)})
    client.post(f"{INBOX}read/", {"message": "nonsense"})
    assert Message.objects.unread().count() == 3
    client.post(f"{INBOX}read/", {"message": str(own.pk)})
    assert set(Message.objects.unread()) == {other, alien}
    client.post(f"{INBOX}read/", {})
    assert set(Message.objects.unread()) == {other, alien}, "nothing given is not all"
    client.post(f"{INBOX}read/", {"all": "1"})
    assert set(Message.objects.unread()) == {alien}
    assert "My messages (" not in client.get(INBOX).content.decode()


def test_programs_read_and_mark_them_too():
    client, nina = Client(), make_user("manager")
    own = letter(nina, "a")
    headers = bearer(nina)
    path = "/api/v1/notifications/inbox"
    answer = client.get(path, headers=headers).json()
    assert (answer["unread"], [row["id"] for row in answer["items"]]) == (1, [str(own.pk)])
    marked = client.post(
        f"{path}/read", {"message": str(own.pk)}, content_type="application/json", headers=headers
    )
    assert marked.json() == {"read": 1}
    assert client.get(path, headers=headers).json()["unread"] == 0


def test_as_many_are_marked_as_were_unread():
    client, nina = Client(), make_user("manager")
    for means in ("mail", "push"):
        letter(nina, "a", means, occasion="o1")
    Message.objects.filter(pk=letter(nina, "never sent").pk).update(status=NOT_SENT)
    path, headers = "/api/v1/notifications/inbox", bearer(nina)
    unread = client.get(path, headers=headers).json()["unread"]
    for wrong in ({}, {"message": None}, {"message": str(uuid.uuid4()), "all": True}):
        refused = client.post(f"{path}/read", wrong, "application/json", headers=headers)
        assert refused.status_code == 422
    marked = client.post(f"{path}/read", {"all": True}, "application/json", headers=headers)
    assert (unread, marked.json()) == (1, {"read": 1})
