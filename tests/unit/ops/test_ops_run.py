"""Running: which processes, the supervisor's configuration, what is told, how tests are counted."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from config.settings import Settings
from ops import test as staged
from ops.checks import UpProblem, check_files
from ops.leftovers import MARK, find_leftovers, mark_of
from ops.processes import Process, processes
from ops.readiness import phases, ready
from ops.supervise import ProcessStatus, configuration, socket_path
from ops.test import Count, Outcome, TestStage, read_count
from ops.up import print_welcome
from ops.watch import QUIET_S, Watch

CORE = {"beat", "job", "materialiser", "notifier", "pipelines", "web", "worker"}
DEMO = {"simulator", "target", "probe-a", "probe-b", "probe-c", "mail"}


def names(settings: Settings) -> set[str]:
    return {process.name for process in processes(settings)}


def test_demo_and_broker_run_by_default() -> None:
    assert names(Settings()) == CORE | DEMO | {"broker"}


def test_without_demo_and_with_an_outside_kafka() -> None:
    assert names(Settings(demo=False, kafka_bootstrap="k:9092")) == CORE


def test_a_standby_runs_where_it_is_wanted_and_stops_as_soon_as_the_job() -> None:
    by_name = {process.name: process for process in processes(Settings(demo=False, standby=True))}
    assert by_name.keys() == CORE | {"broker", "standby"}
    assert by_name["standby"].stop_s == by_name["job"].stop_s
    assert not by_name["standby"].early


def test_each_job_is_a_process_and_so_is_its_standby() -> None:
    settings = Settings(demo=False, standby=True, job_scenarios="shop: orders; edge: attack")
    commands = {process.name: process.command[1:] for process in processes(settings)}
    assert commands["job"] == ("-m", "streaming")
    assert commands["job-shop"] == ("-m", "streaming", "--job", "shop")
    assert commands["standby-edge"] == ("-m", "streaming", "--standby", "--job", "edge")


def test_only_the_named_processes() -> None:
    assert [process.name for process in processes(Settings(), ["web"])] == ["web"]


def test_all_stop_within_ten_seconds() -> None:
    planned = processes(Settings())
    slowest = {
        group: max(process.stop_s for process in planned if process.group == group)
        for group in {process.group for process in planned}
    }
    assert sum(slowest.values()) < 9


def test_configuration_restarts_for_ever_and_stops_the_broker_last(tmp_path: Path) -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(configuration(tmp_path, processes(Settings())))
    programs = [name for name in parser.sections() if name.startswith("program:")]
    assert len(programs) == len(processes(Settings()))
    for name in programs:
        assert parser[name]["autorestart"] == "true"
        assert int(parser[name]["startretries"]) > 10**6
        assert parser[name]["killasgroup"] == "true"
        assert "stopasgroup" not in parser[name]  # Spark's driver and Celery end their children
    priority = {name: int(parser[f"group:{name}"]["priority"]) for name in ("broker", "tallyboard")}
    assert priority["broker"] < priority["tallyboard"]


def test_percent_in_a_path_is_kept(tmp_path: Path) -> None:
    text = configuration(tmp_path / "50%", [Process("one", ("true",))])
    assert "/50%%/" in text
    assert "/50%/" not in text


def test_socket_of_a_long_path_lies_elsewhere(tmp_path: Path) -> None:
    assert socket_path(Path("/short")) == Path("/short/supervisor.sock")
    long = socket_path(tmp_path / ("x" * 120))
    assert len(str(long)) < 108
    assert long != socket_path(tmp_path / ("y" * 120))


class Answering(BaseHTTPRequestHandler):
    """A web server's `/readyz`: status and body are those of its server."""

    def do_GET(self) -> None:
        status, body = self.server.said  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def says() -> Iterator[Callable[[int, bytes], bool]]:
    """Whether a start that began at 100 is through where `/readyz` says this."""
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

        def through(status: int, body: bytes) -> bool:
            server.said = status, body  # type: ignore[attr-defined]
            return ready(f"http://127.0.0.1:{server.server_port}/readyz", 100)

        yield through
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "body", "through"),
    [
        (200, b"{}", True), (404, b'{"resting": {"kernel": 200}}', False),
        (503, b'{"resting": {"kernel": 200}}', True), (503, b'{"resting": {}}', False),
        (503, b'{"resting": {"kernel": 200, "python": 99}}', False), (503, b"{}", False),
        (503, b"nonsense", False), (503, b"[]", False),
    ],
)  # fmt: skip
def test_a_start_is_through_where_all_that_is_missing_was_stopped(
    says: Callable[[int, bytes], bool], status: int, body: bytes, through: bool
) -> None:
    assert says(status, body) is through


def test_the_closing_lines_say_what_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(data_dir=tmp_path, http_port=8123)
    print_welcome(settings)
    assert "stopped" not in capsys.readouterr().out
    print_welcome(settings, "kernel (Attacks) was stopped by ada on 2026-09-21: maintenance\n")
    said = capsys.readouterr().out
    assert "The job's query kernel (Attacks) was stopped by ada on 2026-09-21: maintenance" in said
    assert "starts it again on http://127.0.0.1:8123/job/" in said
    assert "is ready: http://127.0.0.1:8123/" in said


def test_the_closing_lines_name_settings_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYBOARD_HTPPS", "1")
    print_welcome(Settings(data_dir=tmp_path))
    assert "TALLYBOARD_HTPPS (environment) is no setting" in capsys.readouterr().out


def test_scenarios_that_are_none_are_refused_with_their_key(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.toml"
    path.write_text("[attack]\nstates = 7\n")
    with pytest.raises(UpProblem, match=rf"^TALLYBOARD_SCENARIOS: {path}: attack.states: expected"):
        check_files(Settings(scenarios=path))


def test_what_is_supervised_keeps_its_files_to_itself(tmp_path: Path) -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(configuration(tmp_path, processes(Settings())))
    ours = [name for name in parser.sections() if name.startswith("program:")]
    assert {parser[name]["umask"] for name in ("supervisord", *ours)} == {"077"}


def test_readiness_waits_for_what_is_started() -> None:
    titles = [phase.title.split()[0] for phase in phases(Settings(), CORE | {"broker"})]
    assert titles == ["broker", "web", "job"]
    assert [phase.title.split()[0] for phase in phases(Settings(), {"web"})] == ["web"]


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, "http://127.0.0.1:81"),
        ({"http_host": "0.0.0.0"}, "http://127.0.0.1:81"),
        ({"http_host": "192.0.2.7"}, "http://192.0.2.7:81"),
    ],
    ids=str,
)
def test_links_in_messages_begin_as_the_printed_address(
    given: dict[str, str], printed: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = Settings(http_port=81, data_dir=tmp_path, **given)  # type: ignore[arg-type]
    print_welcome(settings)
    assert f"Tallyboard is ready: {printed}/\n" in capsys.readouterr().out
    assert settings.own_url == printed


def test_links_in_messages_begin_with_the_public_address_where_one_is_set() -> None:
    assert Settings(public_url="https://board.example").own_url == "https://board.example"


def fake_process(proc: Path, pid: int, environ: dict[str, str]) -> None:
    (proc / str(pid)).mkdir(parents=True)
    joined = "\0".join(f"{key}={value}" for key, value in environ.items())
    (proc / str(pid) / "environ").write_bytes(joined.encode())


def test_leftovers_are_those_with_this_instances_mark(tmp_path: Path) -> None:
    proc, data, other = tmp_path / "proc", tmp_path / "data", tmp_path / "data2"
    fake_process(proc, 11, {"A": "1", MARK: mark_of(data)})
    fake_process(proc, 12, {MARK: mark_of(other)})
    fake_process(proc, 13, {"PATH": "/bin"})
    fake_process(proc, os.getpid(), {MARK: mark_of(data)})
    assert find_leftovers(data, proc) == [11]


class Scene:
    """A watch over what a test says that the supervisor sees."""

    def __init__(self) -> None:
        self.now = 0.0
        self.statuses: dict[str, ProcessStatus] = {}
        self.said: list[str] = []
        self.watch = Watch(Path("/d"), self.said.append, lambda: self.statuses, lambda: self.now)

    def look(self, state: str, pid: int) -> int:
        """Have the watch see `job` in this state; returns how many lines were said so far."""
        self.statuses = {"job": ProcessStatus("job", "tallyboard:job", state, pid, 0, 0)}
        self.watch.look()
        return len(self.said)


def test_failed_process_is_told_with_its_log() -> None:
    scene = Scene()
    assert scene.look("RUNNING", 5) == 0
    assert scene.look("BACKOFF", 0) == 1
    assert "job ended unexpectedly" in scene.said[0]
    assert "/d/logs/job.log" in scene.said[0]


def test_process_restarted_between_two_looks_is_told() -> None:
    scene = Scene()
    scene.look("RUNNING", 5)
    assert scene.look("STARTING", 6) == 1


@pytest.mark.parametrize("state", ["STOPPING", "STOPPED"])
def test_process_that_was_stopped_is_not_told(state: str) -> None:
    scene = Scene()
    scene.look("RUNNING", 5)
    assert scene.look(state, 0) == 0
    assert scene.look("STARTING", 7) == 0


def test_flapping_process_is_told_now_and_then() -> None:
    scene = Scene()
    for pid in range(1, 20, 2):
        scene.look("STARTING", pid)
        scene.look("BACKOFF", 0)
    assert len(scene.said) == 1
    scene.now = QUIET_S
    scene.look("STARTING", 99)
    assert scene.look("BACKOFF", 0) == 2


REPORT = (
    '<testsuites><testsuite tests="9" failures="1" errors="2" skipped="1">'
    '<testcase><skipped message="no Redis"/></testcase></testsuite></testsuites>'
)


def test_count_of_a_stage(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(REPORT)
    assert read_count(report, 1) == Count(5, 3, 1, ("no Redis",))


WRITTEN = """
def test_that_holds():
    pass

def test_that_fails():
    raise AssertionError
"""
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "DJANGO_SETTINGS_MODULE": ""}


def test_a_test_that_fails_fails_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tests" / "kafka").mkdir(parents=True)
    (tmp_path / "tests" / "kafka" / "test_written.py").write_text(WRITTEN)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(staged, "ROOT", tmp_path)
    monkeypatch.setattr(staged, "RESULTS", tmp_path)
    monkeypatch.setattr(staged, "busy_cores", lambda: 0.0)
    for name, value in BARE.items():
        monkeypatch.setenv(name, value)
    stage = TestStage("kafka", "", 9, 9)
    outcome = staged.run_stage(stage, stage.tests(whole=False), whole=False)
    assert outcome.count == Count(1, 1)
    assert staged.sum_up([outcome]) == 1


@pytest.mark.parametrize(("returncode", "failed"), [(0, 0), (5, 0), (2, 1), (-9, 1)])
def test_stage_without_report(tmp_path: Path, returncode: int, failed: int) -> None:
    assert read_count(tmp_path / "none.xml", returncode) == Count(failed=failed)


class Installed:
    """Everything that a stage needs is there."""

    def __init__(self, _stages: list[TestStage], _log: Path) -> None:
        pass

    def problem(self, stage: TestStage) -> str | None:
        return None


def test_sum_is_the_last_line_and_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {stage.name: Count(passed=2) for stage in staged.STAGES}
    counts |= {"e2e": Count(1, 1, 1, ("no Redis",)), "web": Count(2, why_skipped=("no Redis",))}

    def run_stage(stage: TestStage, _arguments: list[str], *, whole: bool) -> Outcome:
        return Outcome(stage.name, counts[stage.name], 10, 100)

    monkeypatch.setattr(staged, "Prerequisites", Installed)
    monkeypatch.setattr(staged, "run_stage", run_stage)
    assert staged.main([]) == 1
    last = capsys.readouterr().out.splitlines()[-7:]
    assert last == [
        *(f"== {stage.name}: 10 s, of 100 s expected" for stage in staged.STAGES),
        "== all stages: 40 s, of 400 s expected",
        "== skipped: no Redis",
        "7 passed, 1 failed, 1 skipped",
    ]
    assert staged.main(["unit"]) == 0


def test_a_slow_stage_fails_a_strict_run_on_a_quiet_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka, spark = Outcome("kafka", Count(1), 149, 100), Outcome("spark", Count(1), 151, 100)
    assert staged.sum_up([kafka, spark]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        "== kafka: 149 s, of 100 s expected",
        "== spark: 151 s, of 100 s expected  <== SLOW: 151% of its budget",
        "== all stages: 300 s, of 200 s expected",
    ]
    assert staged.sum_up([kafka, spark], strict=True) == 1
    failed = "== FAILED: spark took more than 1.5 times its budget on a quiet machine"
    assert capsys.readouterr().out.splitlines()[-2:] == [failed, str(Count(2))]


def test_a_slow_stage_on_a_busy_machine_fails_nothing_and_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert staged.sum_up([Outcome("spark", Count(1), 151, 100, load=0.9)], strict=True) == 0
    said = capsys.readouterr().out
    assert "SLOW: 151% of its budget, 0.9 cores busy beside it" in said
    assert "FAILED" not in said


def test_stage_whose_needs_are_missing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Without(Installed):
        def problem(self, stage: TestStage) -> str | None:
            return "install the package chromium" if "browser" in stage.needs else None

    monkeypatch.setattr(staged, "Prerequisites", Without)
    assert staged.main(["e2e"]) == 1
    assert "install the package chromium" in capsys.readouterr().out


def test_trials_are_run_by_all_alone() -> None:
    assert staged.TRIALS not in staged.choose([])
    assert staged.choose(["all"]) == [*staged.STAGES, staged.TRIALS]
    assert staged.TRIALS.tests(whole=True) == ("tests", "-m", "long")


@pytest.mark.parametrize("names", [["integration", "unit"], ["all", "integration", "unit"]])
def test_stages_that_are_named_run_alone_and_in_their_order(names: list[str]) -> None:
    assert [stage.name for stage in staged.choose(names)] == ["unit", "integration"]


def test_a_whole_run_takes_every_case_and_every_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, bool]] = []
    monkeypatch.setattr(staged, "Prerequisites", Installed)

    def run_stage(stage: TestStage, _arguments: tuple[str, ...], *, whole: bool) -> Outcome:
        ran.append((stage.name, whole))
        return Outcome(stage.name, Count(), 0, stage.seconds(whole=whole))

    monkeypatch.setattr(staged, "run_stage", run_stage)
    staged.main(["web"])
    staged.main(["all", "web"])
    assert ran == [("web", False), ("web", True)]
    web = next(stage for stage in staged.STAGES if stage.name == "web")
    assert web.tests(whole=False) == ("tests/web",)
    assert web.tests(whole=True) == ("tests/web", *staged.WHOLE)
    said = capsys.readouterr().out
    assert f"a spread of cases of web, budgeted at {web.plain_s / 60:.0f} minutes" in said
    assert "all cases of web, budgeted at" in said


def test_a_stage_that_there_is_not_is_named() -> None:
    with pytest.raises(
        SystemExit, match=r"no stage qick; there are unit, web, .*trials, and all, changed"
    ):
        staged.choose(["qick"])


def test_what_the_stages_need_is_installed_beside_the_first_ones(tmp_path: Path) -> None:
    first, second = TestStage("a", "", 1, 1), TestStage("b", "", 1, 1, needs=("unheard-of",))
    prerequisites = staged.Prerequisites([first, second], tmp_path / "log")
    assert prerequisites.problem(first) is None
    assert prerequisites.problem(second) is None, "nothing is known by this name"


def test_what_cannot_be_installed_is_the_message_of_the_stages_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    first, second = TestStage("a", "", 1, 1), TestStage("b", "", 1, 1, needs=("java",))
    prerequisites = staged.Prerequisites([first, second], tmp_path / "log")
    (tmp_path / "log").write_text("jars: fetching\nno network\n")
    assert prerequisites.problem(second) == "no network"
    assert prerequisites.problem(first) is None
