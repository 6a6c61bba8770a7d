"""A history from before the product is brought in from a file: checked first, once, up to what the
product saw itself, and counted like everything else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.rules.changes import ChangeComparison
from dashboard.core.states.models import Transition
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import ImpairedSpan, ImportedHistory, Presence
from dashboard.watch.incidents.models import Incident
from domain.history.periods import containing
from support.web.clocks import at, stop_clock
from support.web.independent_summary import History
from support.web.lived_month import DAY, HOUR, MINUTE, STATES, Topic, lived
from support.web.summaries import materialise, sum_up

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

OWN, NOW = at("2026-03-20T08:00"), at("2026-03-27T13:37")
"""When the product began, and a week later."""
BEFORE = at("2026-03-09T00:00")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch, NOW)


@pytest.fixture
def own() -> Topic:
    """A week that the product saw itself."""
    topic = Topic()
    lived(topic, OWN + 3 * DAY, NOW, seed=4)  # "still" is there from OWN on
    materialise(topic.messages)
    return topic


def changes(seed: int = 9) -> list[dict[str, Any]]:
    """A history of ten days, in the order of assets and times."""
    topic = Topic()
    lived(topic, BEFORE + 3 * DAY, OWN - HOUR, seed)
    lines = []
    for message in topic.messages:
        record = json.loads(message.value) if message.value else {"state": None}
        line = {
            "scenario": "attack",
            "asset": (message.key or b"").decode(),
            "at": message.timestamp,
        }
        lines.append(
            line | {"state": record["state"], "unconfirmed": bool(record.get("unconfirmed"))}
        )
    places = {(line["asset"], line["at"]): line for line in reversed(lines)}
    return [places[place] for place in sorted(places)]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[list[Any]], str]:
    def written(lines: list[Any]) -> str:
        path = tmp_path / "history.ndjson"
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text("\n".join(texts) + "\n")
        return str(path)

    return written


def imported(path: str, *options: str) -> str:
    out = io.StringIO()
    call_command("import-history", path, *options, stdout=out)
    return out.getvalue()


def test_the_week_before_is_counted_as_the_file_tells(
    own: Topic, file: Callable[[list[Any]], str], client: Client
):
    lines = changes()
    output = imported(file(lines), "--apply")
    assert f"attack: {len(lines):,} changes of 6 assets since 2026-03-09" in output
    sum_up(NOW)
    records = [
        (line["asset"], {**line, "state": line["state"] or "", "cause": {"time": line["at"]}})
        for line in sorted(lines, key=lambda line: line["at"])
    ]
    past = History(records, STATES, lambda _, state: state == "clear")
    question = Question(("attack",), containing("week", date(2026, 3, 15)))
    figures = summary(question, NOW).whole.now
    begin, end = at("2026-03-09T00:00"), at("2026-03-16T00:00")
    assert tuple(figures.times) == past.count(begin, end, "UTC", {}).total()
    assert figures.incidents == len(past.during(begin, end)) > 0
    assert figures.flapping == past.flapping(begin, end)
    week = summary(Question(("attack",), containing("week", date(2026, 3, 27))), NOW)
    assert week.whole.before.times.present > 0
    page = client.get("/summary/?period=week&date=2026-03-15&scenario=attack").content.decode()
    assert "Part of this history was imported" in page
    later = client.get("/summary/?period=day&date=2026-03-27&scenario=attack").content.decode()
    assert "was imported" not in later
    assert AuditEntry.objects.filter(action="summary.imported").count() == 1


def test_nothing_is_written_without_apply(own: Topic, file: Callable[[list[Any]], str]):
    before = [model.objects.count() for model in (Transition, Presence, ImpairedSpan, Incident)]
    output = imported(file(changes()))
    assert output.endswith("Nothing has been written. Add --apply to bring it in.\n")
    after = [model.objects.count() for model in (Transition, Presence, ImpairedSpan, Incident)]
    assert before == after
    assert not ImportedHistory.objects.exists()


def test_a_file_that_comes_again_changes_nothing(own: Topic, file: Callable[[list[Any]], str]):
    path = file(changes())
    imported(path, "--apply")
    rows = set(Transition.objects.values_list())
    assert "were there already" in imported(path, "--apply")
    assert set(Transition.objects.values_list()) == rows
    assert ImportedHistory.objects.count() == 1
    with pytest.raises(CommandError, match="1: asset: expected the history that was imported"):
        imported(file(changes(seed=10)), "--apply")


def test_after_a_wrong_line_the_mended_file_goes_on(own: Topic, file: Callable[[list[Any]], str]):
    lines = changes()
    middle = len(lines) // 2
    wrong = [*lines[:middle], {**lines[middle], "state": "nope"}, *lines[middle + 1 :]]
    with pytest.raises(
        CommandError, match=rf"history\.ndjson:{middle + 1}: state: expected null or"
    ):
        imported(file(wrong), "--apply")
    assert ImportedHistory.objects.count() == 1
    imported(file(lines), "--apply")
    whole = Transition.objects.filter(cause_type="import").count()
    assert whole >= len({line["asset"] for line in lines})
    assert {row.asset for row in Presence.objects.filter(begin__lt=OWN)} == {
        line["asset"] for line in lines
    }


def test_what_was_brought_in_withstands_the_check(own: Topic, file: Callable[[list[Any]], str]):
    imported(file(changes()), "--apply")
    sum_up(NOW)
    out = io.StringIO()
    call_command("check_summaries", "--scenario", "attack", stdout=out)
    assert out.getvalue().endswith("No difference.\n")
    gone = Incident.objects.filter(began_at__lt=OWN - DAY, ended_at__gt=0).first()
    assert gone is not None
    gone.delete()
    with pytest.raises(SystemExit):
        call_command("check_summaries", "--scenario", "attack", stdout=out)
    assert f"{gone.asset} incident: kept none, counted one" in out.getvalue()


def test_a_comparison_with_the_log_leaves_it_out(own: Topic, file: Callable[[list[Any]], str]):
    def compared() -> dict[str, Any]:
        return dict(ChangeComparison("attack", lambda: NOW).rows())

    before = compared()
    imported(file(changes()), "--apply")
    assert compared() == before


def test_what_goes_on_ends_where_the_product_began(own: Topic, file: Callable[[list[Any]], str]):
    line = {"scenario": "attack", "asset": "old", "at": BEFORE, "state": "under-attack"}
    imported(file([line]), "--apply")
    row = Presence.objects.get(asset="old")
    assert (row.begin, row.end) == (BEFORE, OWN)
    assert Incident.objects.get(asset="old").ended_at == OWN
    assert list(Transition.objects.filter(asset="old").values_list("state", "at")) == [
        ("under-attack", BEFORE),
        ("", OWN),
    ]


GOOD = {"scenario": "attack", "asset": "shop", "at": BEFORE, "state": "clear"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "1: line: expected a JSON object"),
        ("[]", "1: line: expected a JSON object"),
        ({**GOOD, "agent": "x"}, "1: agent: expected one of scenario, asset, at, state"),
        ({**GOOD, "scenario": "nope"}, "1: scenario: expected one of attack"),
        ({**GOOD, "asset": ""}, "1: asset: expected the name of an asset"),
        ({**GOOD, "state": "nope"}, "1: state: expected null or one of under-attack"),
        ({**GOOD, "state": None}, "1: state: expected a state, as nothing was before"),
        ({**GOOD, "unconfirmed": 1}, "1: unconfirmed: expected true or false"),
        ({**GOOD, "at": "yesterday"}, "1: at: expected a time in Unix ms"),
        ({**GOOD, "at": True}, "1: at: expected a time in Unix ms"),
        ({**GOOD, "at": NOW - 91 * DAY}, "1: at: expected a time since"),
        ({**GOOD, "at": OWN}, "1: at: expected a time before 2026-03-20"),
        (
            {**GOOD, "scenario": "connectivity", "state": "up"},
            "1: scenario: expected a scenario that",
        ),
    ],
)
def test_a_wrong_line_is_named_with_its_key(
    own: Topic, file: Callable[[list[Any]], str], line: Any, says: str
):
    with pytest.raises(CommandError) as refused:
        imported(file([line]))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "lines", [[GOOD, GOOD], [{**GOOD, "at": BEFORE + MINUTE}, GOOD], [GOOD, {**GOOD, "asset": "a"}]]
)
def test_lines_out_of_order_are_refused(own: Topic, file: Callable[[list[Any]], str], lines: Any):
    with pytest.raises(CommandError, match="2: at: expected lines in the order of"):
        imported(file(lines))


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(CommandError, match="No such file"):
        imported(str(tmp_path / "nothing"))
