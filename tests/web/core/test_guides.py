"""What CONTRIBUTING.md says of a new list page, scenario, channel and pipeline: done as it says."""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.test import Client
from django.urls import include, path

from dashboard import urls
from dashboard.core.audit.actions import ACTIONS
from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.access import OPERATORS
from dashboard.core.common.navigation import GROUPS, MenuEntry
from dashboard.core.common.outbound import AddressRefused, OutboundUnreachable, check, post
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import Answer
from dashboard.notify.notifications import channels, outbox
from dashboard.notify.notifications.channels import ChannelKind, Undelivered
from dashboard.notify.notifications.models import GIVEN_UP, SENT, Channel, Message
from dashboard.notify.notifications.outbox import MessageDraft
from domain.fold import Bucket
from domain.records import Report, StateRecord
from domain.scenario import Scenario
from domain.scenario_parser import ScenarioError, load_scenarios
from support.web.deliveries import deliver
from support.web.receivers import HookServer, hook_server
from support.web.web_fixtures import logged_in_as

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


# ---- a list page ------------------------------------------------------------------------------

LIST = '''\
"""The list of answers to commands."""

from django.db.models import Q

from dashboard.core.common.access import OPERATORS
from dashboard.core.common.lists import ListPage
from dashboard.core.common.tables import Table
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.models import Answer
from dashboard.core.states.vocabularies import TextKey, TimeKey, Vocabulary


class AnswerForm(VocabularyForm):
    """The filter of answers."""

    vocabulary = Vocabulary(
        word=lambda text: Q(asset__icontains=text),
        keys=(TextKey("outcome", "what came of it", "outcome"), TimeKey("at", "when", "at")),
    )

    def every(self):
        """Return all answers."""
        return Answer.objects.all()


class AnswerList(ListPage):
    """The list of answers, the newest first."""

    name, template, roles = "answers", "answers/answers", OPERATORS
    form_class, table = AnswerForm, Table("", "Asset", "At", "Outcome")
    renews, page_size, fields = False, 2, ("asset", "at", "outcome")
'''
TEMPLATE = """\
{% extends "list.html" %}
{% load board %}
{% block title %}Answers{% endblock %}
{% block heading %}Answers{% endblock %}
{% block lead %}What became of commands, the newest first.{% endblock %}
{% block rows %}
{% files "answers:file" query %}
{% table table label="Answers" %}
  {% for row in page.rows %}
    <tr>
      <td><bdi>{{ row.asset }}</bdi></td>{% moment_cell row.at now %}<td>{{ row.outcome }}</td>
    </tr>
  {% endfor %}
{% endtable %}
{% include "_pager.html" %}
{% endblock %}
"""


@pytest.fixture
def answers(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of answers, in the addresses, the menu and the audit; and three answers."""
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "answers.html").write_text(TEMPLATE)
    (tmp_path / "answer_list.py").write_text(LIST)
    page = _imported("answer_list", tmp_path / "answer_list.py")
    own: Any = ModuleType("answer_urls")
    listed = page.AnswerList.addresses("answers/", "answers", "file")
    own.urlpatterns = [path("", include((listed, "answers"))), *urls.urlpatterns]
    monkeypatch.setitem(sys.modules, "answer_urls", own)
    settings.ROOT_URLCONF = "answer_urls"
    [engine] = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [*engine["DIRS"], tmp_path]}]
    place = MenuEntry("answers:answers", "Answers", "what became of commands", OPERATORS)
    monkeypatch.setitem(GROUPS, "Watch", (*GROUPS["Watch"], place))
    monkeypatch.setitem(ACTIONS, "export.answers", "took answers out as a file")
    for at, asset in enumerate(("shop-1", "mail", "shop-2")):
        Answer.objects.create(
            scenario="attack", asset=asset, command=asset, outcome="applied", version="v", at=at
        )


def _imported(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_list_page_takes_two_files_of_so_many_lines() -> None:
    lines = sum(1 for line in (LIST + TEMPLATE).splitlines() if line.strip())
    assert "some 40 lines in two files" in GUIDE.replace("\n   ", " ")
    assert 33 <= lines <= 43


def test_a_list_page_has_pages_a_filter_and_a_place_in_the_menu(answers: None) -> None:
    client = logged_in_as("operator")
    page = client.get("/answers/")
    text = page.content.decode()
    assert page.status_code == 200
    assert text.index("<bdi>shop-2</bdi>") < text.index("<bdi>mail</bdi>")
    assert "<bdi>shop-1</bdi>" not in text
    assert 'href="/answers/"' in text
    older = client.get(f"/answers/{page.context['pager'].links['Older']}").content.decode()
    assert "<bdi>shop-1</bdi>" in older
    answers_page = client.get("/answers/?q=mail").context["page"]
    assert [row.asset for row in answers_page.rows] == ["mail"]
    offered = client.get("/answers/?complete=o").json()["items"]
    assert [each["text"] for each in offered] == ["outcome:"]
    assert client.get("/answers/?q=colour:red").status_code == 422
    assert 'href="/answers/answers.csv' in text


def test_a_list_page_is_a_file_that_the_audit_notes(answers: None) -> None:
    client = logged_in_as("operator")
    table: Any = client.get("/answers/answers.csv?q=shop")
    rows = list(csv.DictReader(io.StringIO(b"".join(table.streaming_content).decode())))
    assert [row["asset"] for row in rows] == ["shop-2", "shop-1"]
    assert list(rows[0]) == ["asset", "at", "outcome"]
    lines: Any = client.get("/answers/answers.ndjson")
    text = b"".join(lines.streaming_content).decode()
    assert text.splitlines()[0] == '{"asset":"shop-2","at":2,"outcome":"applied"}'
    noted = AuditEntry.objects.filter(action="export.answers").order_by("number")
    assert [entry.target for entry in noted] == ["answers.csv", "answers.ndjson"]


@pytest.mark.parametrize(("role", "status"), [("manager", 403), ("operator", 200), ("admin", 200)])
def test_a_list_page_is_read_by_its_roles_alone(answers: None, role: str, status: int) -> None:
    client = logged_in_as(role)
    for address in ("/answers/", "/answers/answers.csv"):
        assert client.get(address).status_code == status
        assert client.post(address).status_code == 405
        assert Client().get(address).status_code == 302
    assert ('href="/answers/"' in client.get("/glossary/").content.decode()) == (status == 200)


# ---- a scenario -------------------------------------------------------------------------------

RULE = '''\
"""The state of the first agent by name."""

from domain.records import Vote


def tally(votes: tuple[Vote, ...], current: str | None) -> str:
    """Return the state that the first agent reports."""
    return votes[0].state
'''
SCENARIO = """

[doors]
title = "Doors"
noun = "door"
partitions = 2
vote_lifetime = "1h"
states = [
    { name = "open", label = "Open", colour = "red", icon = "octagon" },
    { name = "shut", label = "Shut", colour = "green", icon = "check" },
]
rule = { kind = "python", function = "first_agent" }

[doors.demo]
vote_lifetime = "1m"
"""


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of scenarios.toml with one scenario more, whose rule is in a folder of its own."""
    import rules

    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "first_agent.py").write_text(RULE)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path / "rules")])
    monkeypatch.delitem(sys.modules, "rules.first_agent", raising=False)
    copy = tmp_path / "scenarios.toml"
    copy.write_text((ROOT / "scenarios.toml").read_text(encoding="utf-8") + SCENARIO)
    return copy


def test_a_scenario_is_a_table_and_its_rule_a_module(doors: Path) -> None:
    known = load_scenarios(doors)
    assert list(known) == [*load_scenarios(ROOT / "scenarios.toml"), "doors"]
    assert _shown(known["doors"], ("b", "open"), ("c", "shut")) == "open"
    assert _shown(known["doors"], ("b", "open"), ("a", "shut")) == "shut"
    lifetimes = (known["doors"].lifetime, load_scenarios(doors, demo=True)["doors"].lifetime)
    assert lifetimes == (3_600_000, 60_000)


def _shown(scenario: Scenario, *reports: tuple[str, str]) -> str:
    bucket, state = Bucket(scenario, 0, 1), ""
    for offset, (agent, said) in enumerate(reports):
        for emitted in bucket.apply(Report("front", agent, said), offset, 1_000 + offset):
            assert isinstance(emitted, StateRecord)
            state = emitted.state
    return state


def test_a_scenario_whose_rule_is_no_module_is_refused(doors: Path) -> None:
    doors.write_text(doors.read_text().replace("first_agent", "last_agent"))
    with pytest.raises(ScenarioError, match=r"doors.*a module of rules/ with a function tally"):
        load_scenarios(doors)


# ---- a channel --------------------------------------------------------------------------------


class LampKind(ChannelKind):
    """Lights a lamp at an address."""

    name: ClassVar[str] = "lamp"
    label: ClassVar[str] = "Lamp"
    address_label: ClassVar[str] = "Address of the lamp"

    def problem(self, address: str, secret: str) -> str:
        """Return why no lamp at this address may be lit."""
        try:
            check(address)
        except AddressRefused as refused:
            return str(refused)
        return ""

    def deliver(self, message: Message) -> str:
        """Light the lamp."""
        assert message.channel
        try:
            answer = post(message.channel.address, message.subject.encode(), {})
        except OutboundUnreachable as error:
            raise Undelivered(str(error), final=isinstance(error, AddressRefused)) from None
        return f"{answer.status}"


@pytest.fixture
def lamp() -> Iterator[HookServer]:
    """A lamp on this machine, whose kind is registered."""
    channels.register(LampKind())
    with hook_server() as server:
        yield server
    del channels.CHANNELS[LampKind.name]


def test_a_channel_delivers(lamp: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = django_settings.TALLYBOARD.model_copy(update={"private_targets": True})
    monkeypatch.setattr(django_settings, "TALLYBOARD", allowed)
    message = _sent(f"http://127.0.0.1:{lamp.port}/")
    assert (message.status, [each.body for each in lamp.posted]) == (SENT, [b"a test"])


def test_a_channel_calls_no_address_that_the_product_may_not(lamp: HookServer) -> None:
    message = _sent(f"http://127.0.0.1:{lamp.port}/")
    assert (message.status, lamp.posted) == (GIVEN_UP, [])
    new = "/notifications/channels/new/lamp/"
    typed = {"name": "Lamp", "address": f"http://127.0.0.1:{lamp.port}/", "most": "5"}
    admin = logged_in_as("admin")
    assert "Address of the lamp" in admin.get(new).content.decode()
    assert admin.post(new, {**typed, "window": "1h", "enabled": "on"}).status_code == 422


def _sent(address: str) -> Message:
    """What becomes of a message to a lamp."""
    channel = Channel.objects.create(name="Lamp", kind="lamp", address=address, changed_at=1)
    [target] = outbox.targets_of_channel(channel)
    message = outbox.put(target, MessageDraft("test", "a test", "text"), now_ms())
    deliver()
    message.refresh_from_db()
    return message


# ---- a pipeline -------------------------------------------------------------------------------


def test_a_pipeline_is_written_with_its_test(tmp_path: Path) -> None:
    out = io.StringIO()
    call_command("pipeline", "new", "door-counts", "--root", str(tmp_path), stdout=out)
    files = [
        tmp_path / "pipelines" / "door_counts.py",
        tmp_path / "tests" / "integration" / "spark" / "test_door_counts.py",
    ]
    assert sorted(tmp_path.rglob("*.py")) == files
    assert all(str(file) in out.getvalue() for file in files)
    assert "TALLYBOARD_PIPELINES=door-counts make run" in out.getvalue()
    declared = _imported("door_counts", files[0]).PIPELINE
    assert (declared.name, [sink.topic for sink in declared.sinks]) == (
        "door-counts",
        ["pipelines.door-counts"],
    )
    compile(files[1].read_text(), str(files[1]), "exec")
