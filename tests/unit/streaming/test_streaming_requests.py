"""What the console asks of the job: read once, remembered, carried out, answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.scenario_parser import load_scenarios
from streaming.fold.assignment import AssignmentRefused, EngineAssignment, ProcessNeeded, slots
from streaming.requests.queue import REMEMBERED, RequestAuthenticator, RequestQueue
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage
from wire.job import EXPIRES_MS, Control, JobAnswer, encode
from wire.keys import KeyFile
from wire.signature import Signer
from wire.sink import decode_dead_letter

START = 1_790_000_000_000
MORE = """
[orders]
partitions = 1
vocabulary = "open"
states = [{ name = "received" }]
rule = { kind = "latest" }
"""


class Clock:
    """Unix ms, moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@dataclass
class Trial:
    """A bus with a control topic, and a queue that reads it."""

    folder: LocalPath
    clock: Clock = field(default_factory=Clock)
    answers: list[JobAnswer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus = MemoryBus(self.clock)
        self.bus.ensure_topics([TopicSpec(TOPICS.control, 1, {})])
        self.queue = self.open()

    def open(self) -> RequestQueue:
        """A queue as a new driver makes it."""
        path = self.folder / "control.json"
        return RequestQueue(
            self.bus, TOPICS.control, "kernel", path, self.clock, self.answers.append
        )

    def ask(self, id_: str, action: Any = "stop", query: str = "kernel") -> Control:
        record = Control(id_, query, action, "ada", "a drill")
        self.put(encode(record))
        return record

    def put(self, value: bytes) -> None:
        self.bus.producer().send_and_wait(TOPICS.control, b"kernel", value)

    def outcomes(self) -> list[tuple[str, str]]:
        return [(answer.id, answer.outcome) for answer in self.answers]


@pytest.fixture
def trial(tmp_path: LocalPath) -> Trial:
    """A queue that nothing was asked of yet."""
    return Trial(tmp_path)


def test_an_ask_is_given_out_once(trial: Trial) -> None:
    ask = trial.ask("1")
    assert trial.queue.receive() == [ask]
    assert trial.queue.receive() == []
    trial.queue.accept(ask)
    trial.queue.settle("done", "so it is")
    assert trial.answers == [
        JobAnswer("1", "stop", "accepted"),
        JobAnswer("1", "stop", "done", "so it is"),
    ]


def test_a_new_driver_goes_on_where_the_last_one_ended(trial: Trial) -> None:
    trial.ask("1")
    trial.queue.accept(*trial.queue.receive())
    later = trial.ask("2", "reload")
    again = trial.open()
    assert again.stopped == trial.queue.stopped
    assert again.receive() == [later]
    again.settle("done")
    assert trial.outcomes()[-1] == ("1", "done")


def test_a_stop_is_remembered_until_a_start(trial: Trial) -> None:
    trial.queue.accept(trial.ask("1"))
    stopped = trial.open().stopped
    assert stopped is not None
    assert (stopped.user, stopped.reason, stopped.since) == ("ada", "a drill", START)
    trial.queue.accept(trial.ask("2", "start"))
    assert trial.open().stopped is None


def test_a_repeated_ask_gets_its_first_answer(trial: Trial) -> None:
    trial.ask("1", "reload")
    (ask,) = trial.queue.receive()
    trial.queue.answer(ask, "refused", "no")
    trial.ask("1", "reload")
    assert trial.queue.receive() == []
    assert trial.answers == [JobAnswer("1", "reload", "refused", "no")] * 2
    trial.ask("2")
    trial.queue.accept(*trial.queue.receive())
    trial.ask("2")
    assert trial.queue.receive() == []
    assert trial.outcomes()[2:] == [("2", "accepted")]


def test_an_old_ask_has_expired(trial: Trial) -> None:
    trial.ask("old")
    trial.clock.now += EXPIRES_MS + 1
    fresh = trial.ask("fresh")
    assert trial.queue.receive() == [fresh]
    assert trial.outcomes() == [("old", "expired")]
    assert trial.answers[0].why == "it was read 300 s after it was asked"


def test_other_queries_and_nonsense_are_passed_over(trial: Trial) -> None:
    trial.ask("1", query="python")
    for value in (b"\xff", b"{}", encode(Control("2", "kernel", "dance"))):  # type: ignore[arg-type]
        trial.put(value)
    trial.put(encode(Control("3", "kernel", "stop", "ada\0")))
    last = trial.ask("4")
    assert trial.queue.receive() == [last]
    assert trial.answers == []


def test_answers_that_are_kept_are_bounded(trial: Trial) -> None:
    for number in range(REMEMBERED + 5):
        trial.queue.answer(Control(str(number), "kernel", "start"), "done")
    trial.ask("0", "start")
    trial.ask("5", "start")
    assert [ask.id for ask in trial.queue.receive()] == ["0"]


def test_a_lost_broker_has_no_asks(trial: Trial) -> None:
    trial.bus.stop()
    assert trial.queue.receive() == []
    trial.bus.start()
    ask = trial.ask("1")
    assert trial.open().receive() == [ask]
    trial.bus.stop()
    assert trial.queue.receive() == []


def test_a_memory_that_cannot_be_read_lets_the_query_run(trial: Trial) -> None:
    (trial.folder / "control.json").write_text("{")
    assert trial.open().stopped is None


def test_a_folder_that_cannot_be_written_ends_nothing(trial: Trial) -> None:
    (trial.folder / "file").touch()
    path = trial.folder / "file" / "control.json"
    queue = RequestQueue(
        trial.bus, TOPICS.control, "kernel", path, trial.clock, trial.answers.append
    )
    ask = trial.ask("1")
    assert queue.receive() == [ask]
    queue.accept(ask)
    assert queue.stopped is not None


# ---- what a reload may change ---------------------------------------------------------------


@pytest.fixture
def sharing(tmp_path: LocalPath) -> EngineAssignment:
    """The work of a job with one scenario on the kernel, and no slot to spare."""
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    shares: Any = {"kernel": load_scenarios(file)}
    return EngineAssignment("kernel", "real-time", tmp_path, shares, slots(shares, "real-time"))


def changed(sharing: EngineAssignment, text: str) -> dict[str, Any]:
    file = LocalPath(str(sharing.home)) / "changed.toml"
    file.write_text(text)
    return sharing.anew("kernel", load_scenarios(file))


def test_a_changed_rule_can_be_taken_over(sharing: EngineAssignment) -> None:
    share = changed(sharing, SCENARIOS.replace("5m", "1s"))
    assert share["sites"].holds == {"good": 1000}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SCENARIOS.replace('"latest"', '"python", function = "loudest"'), "sites goes to the py"),
        (SCENARIOS + MORE, "5 tasks are to run at once, and 4 can"),
    ],
)
def test_what_only_a_new_process_can_take_over(
    sharing: EngineAssignment, text: str, why: str
) -> None:
    with pytest.raises(ProcessNeeded, match=why):
        changed(sharing, text)


def test_what_cannot_be_taken_over_at_all(sharing: EngineAssignment) -> None:
    with pytest.raises(AssignmentRefused, match=r"sites: partitions: expected 2 as before, got 3"):
        changed(sharing, SCENARIOS.replace("partitions = 2", "partitions = 3"))
    with pytest.raises(AssignmentRefused, match="no scenario is left for the kernel engine"):
        sharing.anew("kernel", {})


# ---- the driver -----------------------------------------------------------------------------


def test_stop_and_start(stage: Stage) -> None:
    assert stage.ask("1", "stop").outcome == "done"
    assert stage.status() == "stopped"
    assert not stage.queries[0].isActive
    last = stage.query_reports()[-1]
    assert last.stopped is not None
    assert last.stopped.user == "ada"
    again = stage.ask("2", "stop")
    assert (again.outcome, again.why) == ("done", "ada had stopped it already")
    assert stage.ask("3", "start").outcome == "done"
    assert len(stage.queries) == 2
    assert stage.query_reports()[-1].stopped is None
    assert stage.ask("4", "start").why == "it runs already"
    assert len(stage.queries) == 2


def test_stopped_it_stays_through_a_new_process(stage: Stage) -> None:
    stage.ask("1", "stop")
    stage.end()
    stage.begin()
    wait_until(lambda: [p.stopped for p in stage.query_reports()][-1], 20, "nothing is told")
    assert stage.status() == "stopped"
    assert len(stage.queries) == 1
    assert stage.ask("2", "start").outcome == "done"
    stage.wait_for("running")


def test_a_changed_rule_is_appended_while_the_query_runs(stage: Stage) -> None:
    assert stage.rules() == 2
    stage.file.write_text(SCENARIOS.replace("5m", "1s"))
    answer = stage.ask("1", "reload")
    assert (answer.outcome, answer.why) == ("done", "changed: sites")
    assert stage.rules() == 4
    assert len(stage.queries) == 1
    assert stage.ask("2", "reload").why == "the scenarios are as they were"


def test_a_new_scenario_starts_the_query_anew(stage: Stage) -> None:
    stage.file.write_text(SCENARIOS + MORE)
    assert stage.ask("1", "reload").outcome == "done"
    assert len(stage.queries) == 2
    assert stage.bus.partitions(TOPICS.reports("orders")) == 1


def test_a_file_with_a_mistake_is_refused_and_nothing_changes(stage: Stage) -> None:
    stage.file.write_text(SCENARIOS.replace('"latest"', '"loudest"'))
    answer = stage.ask("1", "reload")
    assert answer.outcome == "refused"
    assert "kind" in answer.why
    assert stage.queries[0].isActive


def test_a_reload_while_stopped_is_in_force_after_the_start(stage: Stage) -> None:
    stage.ask("1", "stop")
    stage.file.write_text(SCENARIOS.replace("5m", "1s"))
    assert stage.ask("2", "reload").why == "changed: sites; in force once it is started"
    assert stage.rules() == 2
    stage.ask("3", "start")
    assert stage.rules() == 4


def test_a_reload_that_needs_a_process_is_done_by_the_next_one(stage: Stage) -> None:
    stage.end()
    stage.begin(room=4)
    stage.wait_for("running")
    stage.file.write_text(SCENARIOS + MORE)
    ask = Control("1", "kernel", "reload", "ada", "more")
    stage.bus.producer().send_and_wait(TOPICS.control, b"kernel", encode(ask))
    wait_until(lambda: stage.lost, 20, "the driver does not end")
    assert "5 tasks are to run at once" in str(stage.lost[0])
    assert [p.answer.outcome for p in stage.query_reports() if p.answer] == ["accepted"]
    stage.begin(room=5)
    assert stage.answer("1").outcome == "done"


def test_a_start_ends_the_pause_after_an_error(stage: Stage) -> None:
    stage.queries[0].error = RuntimeError("[STATE_STORE] broken\n  at x")
    stage.wait_for("waiting")
    assert stage.query_reports()[-1].error == "RuntimeError: [STATE_STORE] broken\n  at x"
    assert stage.ask("1", "start").outcome == "done"
    assert stage.status() == "running"
    assert stage.query_reports()[-1].restarts == 1


def test_a_lost_broker_ends_no_driver(stage: Stage) -> None:
    stage.bus.stop()
    stage.queries[0].error = RuntimeError("Connection refused")
    wait_until(lambda: not stage.queries[0].isActive, 20, "it does not end")
    stage.bus.start()
    wait_until(lambda: len(stage.queries) > 1, 30, "it is not started again")
    assert stage.ask("1", "stop").outcome == "done"


# ---- signatures ----------------------------------------------------------------------------


@pytest.mark.parametrize("demands", [True, False])
def test_an_ask_without_a_right_signature_is_set_aside(trial: Trial, demands: bool) -> None:
    """It takes no id, gets no answer, and stops nothing: the ask itself, under the same, does."""
    keys = KeyFile(trial.folder / "keys.json").made()
    trial.bus.ensure_topics([TopicSpec(TOPICS.dead_letters, 1, {})])
    guard = RequestAuthenticator(trial.bus, TOPICS, keys, lambda: demands)
    path = trial.folder / "control.json"
    queue = RequestQueue(
        trial.bus, TOPICS.control, "kernel", path, trial.clock, trial.answers.append, guard
    )
    value = encode(Control("a", "kernel", "stop", "ada", "a drill"))
    signed = Signer(keys.ring, trial.clock).sign(value, TOPICS.control, b"kernel")
    trial.put(signed.replace(b"stop", b"lost"))
    trial.put(signed.replace(b'"ada"', b'"eve"'))
    trial.put(value)
    asks = queue.receive()
    assert [ask.user for ask in asks] == ([] if demands else ["ada"])
    trial.put(signed)
    assert [ask.user for ask in queue.receive()] == ["ada"]
    assert trial.answers == []
    edges = trial.bus.offsets([TOPICS.dead_letters])
    letters = trial.bus.reader(dict.fromkeys(edges, 0)).poll(0.1, 10)
    dead = [decode_dead_letter(m.key, m.value, m.headers) for m in letters]
    assert [(one.reason, one.topic, one.offset) for one in dead] == [
        ("bad-signature", TOPICS.control, 1),
        *([("unsigned", TOPICS.control, 2)] if demands else []),
    ]
