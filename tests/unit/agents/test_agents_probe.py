"""The probe sees what is there, and its file is checked with errors that help."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agents import Reporter, process
from agents.checks import CheckResult, CheckTarget, ProbesError, check, load_targets
from agents.demo.target import serve
from agents.probe import parse, variables, watch
from bus.base import ConsumerRecord, TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from domain.records import Report
from support.run.stack import free_port, wait_until
from wire.source import decode_source

ROOT = Path(__file__).resolve().parents[3]
NOW = 1_790_000_000_000
MINUTE, DAY = 60_000, 86_400_000


class Answer(BaseHTTPRequestHandler):
    """Answers with the status that the path names; /hang never does."""

    release = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/hang":
            self.release.wait(20)
            return
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    Answer.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def http(port: int, path: str, **changes: object) -> CheckTarget:
    target = CheckTarget("t", "http", 1000, 2000, 1500, url=f"http://127.0.0.1:{port}{path}")
    return replace(target, **changes)  # type: ignore[arg-type]


def tcp(port: int) -> CheckTarget:
    return CheckTarget("t", "tcp", 1000, 1000, 900, host="127.0.0.1", port=port)


def test_http_up(port: int) -> None:
    finding = check(http(port, "/200"))
    assert finding.state == "up"
    assert 0 <= finding.detail["latency_ms"] < 1500


def test_unexpected_status_is_down_also_a_redirect(port: int) -> None:
    assert check(http(port, "/503")) == CheckResult("down", {"error": "status 503, expected 200"})
    assert check(http(port, "/302")).state == "down"
    assert check(http(port, "/503", expect_status=(200, 503))).state == "up"


def test_hanging_server_is_down_in_time(port: int) -> None:
    finding = check(http(port, "/hang", timeout=200))
    assert finding.state == "down"
    assert "timed out" in finding.detail["error"]


def test_slow_answer_is_degraded_and_too_slow_is_down(port: int) -> None:
    def ticking(seconds: float):
        return itertools.count(0, seconds).__next__

    assert check(http(port, "/200"), ticking(1.6)) == CheckResult("degraded", {"latency_ms": 1600})
    assert check(http(port, "/200"), ticking(1.5)).state == "up"
    assert check(http(port, "/200"), ticking(2.1)).detail == {"error": "no answer within 2000 ms"}


def test_tcp_up_and_down(port: int) -> None:
    assert check(tcp(port)).state == "up"
    finding = check(tcp(free_port()))
    assert finding.state == "down"
    assert "refused" in finding.detail["error"]


def test_unknown_host_is_down() -> None:
    assert check(replace(tcp(1), host="nowhere.invalid")).state == "down"


def test_nothing_listening_is_down_over_http() -> None:
    assert check(http(free_port(), "/200")).state == "down"


def test_each_finding_becomes_a_report(tmp_path: Path) -> None:
    bus, stop = MemoryBus(lambda: 1_790_000_000_000), threading.Event()
    bus.ensure_topics([TopicSpec("connectivity.reports", 1, {})])
    findings = iter([CheckResult("up", {"latency_ms": 3}), CheckResult("down", {"error": "gone"})])

    def look(_target: CheckTarget) -> CheckResult:
        finding = next(findings, None)
        if finding is None:
            stop.set()
        return finding or CheckResult("up", {})

    with Reporter(bus, "connectivity.reports", tmp_path, lambda: 1_790_000_000_000) as reporter:
        watch(replace(tcp(1), interval=1), "probe-a", reporter, stop, look)
        assert reporter.flush(5) == 0
    read = bus.reader({("connectivity.reports", 0): 0}).poll(0)
    reports = [decode_source(m.key, m.value, m.timestamp) for m in read]
    assert [(r.asset, r.agent, r.state, r.detail) for r in reports if isinstance(r, Report)] == [
        ("t", "probe-a", "up", '{"latency_ms":3}'),
        ("t", "probe-a", "down", '{"error":"gone"}'),
    ]


UP, DOWN = CheckResult("up", {}), CheckResult("down", {})
SLOW = CheckResult("degraded", {})
GRACE_S = 60


@pytest.mark.parametrize(
    ("seen", "reported"),
    [
        ([(1, DOWN), (2, SLOW), (3, UP), (4, UP), (5, UP), (6, DOWN)], ["up", "down"]),
        ([(1, UP), (2, UP), (3, UP), (4, DOWN)], ["up", "down"]),
        ([(1, UP), (2, UP), (3, DOWN), (4, UP), (5, SLOW), (6, UP), (7, UP)], []),
        ([(1, DOWN), (59, DOWN), (60, DOWN), (61, SLOW)], ["down", "degraded"]),
        ([(1, DOWN), (70, UP)], ["up"]),
        ([(1, DOWN), (61, DOWN), (62, UP), (63, DOWN)], ["down", "up", "down"]),
    ],
    ids=["comes up", "up at once", "wavers", "never up", "up late", "up after the grace"],
)
def test_what_is_not_up_yet_is_reported_when_its_grace_is_over(
    tmp_path: Path, seen: list[tuple[int, CheckResult]], reported: list[str]
) -> None:
    now, beats = [0.0], []

    def findings() -> Iterator[CheckResult]:
        for now[0], finding in seen:
            yield finding

    options = {"beat": lambda: beats.append(1), "clock_s": lambda: now[0]}
    sent = probed(findings(), tmp_path, lambda: NOW, GRACE_S * 1000, **options)
    states = [json.loads(m.value or b"") for m in sent]
    assert [each["state"] for each in states if each.get("detail") != {"last": True}] == reported
    assert len(beats) >= len(seen)


def test_without_a_grace_the_first_finding_is_reported(tmp_path: Path) -> None:
    first, *_ = probed([DOWN], tmp_path, lambda: NOW, clock_s=lambda: 0.0)
    assert json.loads(first.value or b"")["state"] == "down"


def probed(
    findings: Iterable[CheckResult],
    folder: Path,
    clock: Callable[[], int],
    grace: int = 0,
    **options: Callable[[], Any],
) -> list[ConsumerRecord]:
    """What a probe's thread sends of these findings, and of one that it makes after them. options:
    of `watch`."""
    bus, stop, over = MemoryBus(lambda: NOW), threading.Event(), threading.Event()
    bus.ensure_topics([TopicSpec("connectivity.reports", 1, {})])
    left = iter(findings)

    def look(_target: CheckTarget) -> CheckResult:
        if (finding := next(left, None)) is None:
            over.set()
        return finding or CheckResult("up", {"last": True})

    with Reporter(bus, "connectivity.reports", folder, clock) as reporter:
        target = replace(tcp(1), interval=1, grace=grace)
        arguments = (target, "probe-a", reporter, stop, look)
        thread = threading.Thread(target=watch, args=arguments, kwargs=options)
        thread.start()
        assert over.wait(10)
        assert thread.is_alive()
        stop.set()
        thread.join(5)
        assert not thread.is_alive()
        assert reporter.flush(5) == 0
    return bus.reader({("connectivity.reports", 0): 0}).poll(0)


@pytest.mark.parametrize(
    ("step", "after", "back"),
    [
        (3 * MINUTE, 3 * MINUTE, 3 * MINUTE + 1),
        (10 * MINUTE, 10 * MINUTE, 0),
        (DAY, DAY, 0),
        (-3 * MINUTE, 1, 2),
        (-10 * MINUTE, -10 * MINUTE, 0),
        (-DAY, -DAY, 0),
    ],
)
def test_a_probe_goes_on_when_its_clock_is_set_and_set_right(
    tmp_path: Path, step: int, after: int, back: int
) -> None:
    now = [NOW]

    def findings() -> Iterator[CheckResult]:
        for now[0] in (NOW, NOW + step, NOW):
            yield CheckResult("up", {})

    sent = [json.loads(m.value or b"") for m in probed(findings(), tmp_path, lambda: now[0])]
    assert [report["reported_at"] - NOW for report in sent[:3]] == [0, after, back]
    assert {report["state"] for report in sent} == {"up"}


def test_a_probe_outlives_a_report_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_logged", set())
    findings = [CheckResult("", {}), CheckResult("down", {}), CheckResult("", {})]
    sent = [json.loads(m.value or b"") for m in probed(findings, tmp_path, lambda: NOW)]
    assert [report["state"] for report in sent][:1] == ["down"]


def test_target_answers_until_it_is_stopped() -> None:
    stop, port = threading.Event(), free_port()
    thread = threading.Thread(target=serve, args=("127.0.0.1", port, stop))
    thread.start()
    wait_until(lambda: check(http(port, "/")).state == "up", 5, "the target answers")
    stop.set()
    thread.join(5)
    assert not thread.is_alive()
    assert check(http(port, "/")).state == "down"


def test_shipped_file_watches_broker_web_server_and_target() -> None:
    settings = Settings(_env_file=None, http_port=8500, kafka_port=19500)  # type: ignore[call-arg]
    targets = {t.name: t for t in load_targets(ROOT / "probes.toml", variables(settings))}
    assert (targets["broker"].host, targets["broker"].port) == ("127.0.0.1", 19500)
    assert targets["web-server"].url == "http://127.0.0.1:8500/healthz"
    assert targets["demo-target"].url == "http://127.0.0.1:8501/"
    assert all(t.timeout < t.interval for t in targets.values())
    assert {t.grace for t in targets.values()} == {5 * MINUTE}


def test_outside_kafka_is_probed_at_its_first_server() -> None:
    settings = Settings(_env_file=None, kafka_bootstrap="[2001:db8::1]:9092,b:9093")  # type: ignore[call-arg]
    environment = variables(settings)
    assert environment["TALLYBOARD_KAFKA_HOST"] == "2001:db8::1"
    assert environment["TALLYBOARD_KAFKA_PORT"] == "9092"


GOOD = '[[target]]\nname = "a"\nkind = "tcp"\nhost = "h"\nport = 1\n'
WEB = '[[target]]\nname = "a"\nkind = "http"\nurl = "http://x"\n'
HTTP = '[[target]]\nname = "a"\nkind = "http"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "target: expected at least one"),
        ("target = 3", "target: expected at least one"),
        ("[[targets]]", "targets: expected .* alone"),
        ("[[target]", "expected TOML"),
        (GOOD.replace('name = "a"', ""), r"target\[0\]\.name: expected a text"),
        (GOOD.replace('"a"', '"a\\u0000"'), r"target\[0\]\.name: expected"),
        (
            GOOD.replace('"tcp"', '"udp"'),
            r"target\[0\]\.kind: expected one of http, tcp, got 'udp'",
        ),
        (GOOD.replace("port = 1", "port = 0"), r"target\[0\]\.port: expected an integer from 1"),
        (GOOD.replace("port = 1", 'port = "x"'), r"target\[0\]\.port: expected an integer"),
        (GOOD.replace('"h"', '"${HOME}"'), r"target\[0\]\.host: expected \${} with one of PORT"),
        (GOOD + 'timeout = "soon"', r"target\[0\]\.timeout: expected a duration"),
        (GOOD + "interval = 0", r"target\[0\]\.interval: expected a duration"),
        (GOOD + 'grace = "a while"', r"target\[0\]\.grace: expected a duration"),
        (GOOD + "degraded_ms = -1", r"target\[0\]\.degraded_ms: expected an integer"),
        (GOOD + 'url = "http://x"', r"target\[0\]\.url: expected a known key"),
        (GOOD + GOOD, r"target\[1\]\.name: expected a name that no other"),
        (HTTP, r"target\[0\]\.url: expected"),
        (HTTP + 'url = "ftp://x"', r"target\[0\]\.url: expected an address such as"),
        (
            HTTP + 'url = "http://x"\nexpect_status = [99]',
            r"target\[0\]\.expect_status\[0\]: exp",
        ),
        (
            HTTP + 'url = "http://x"\nexpect_status = 200',
            r"target\[0\]\.expect_status: expected",
        ),
    ],
)
def test_wrong_file_is_named_with_key_and_expectation(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "probes.toml"
    path.write_text(text)
    with pytest.raises(ProbesError, match=f"probes.toml: {message}"):
        load_targets(path, {"PORT": "1"})


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProbesError, match=r"none\.toml: cannot be read: No such file"):
        load_targets(tmp_path / "none.toml", {})


def test_name_on_the_command_line() -> None:
    assert parse(["--as", "probe-a"]).agent == "probe-a"
    for wrong in ("", "a/b", "user:eve", ".."):
        with pytest.raises(SystemExit):
            parse(["--as", wrong])
