"""A probe that checks the targets of probes.toml: `python -m agents.probe --as NAME`.

Several probes under different names vote on the same targets.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import structlog

from agents.checks import UP, CheckResult, CheckTarget, ProbesError, check, load_targets
from agents.demo.incidents import spread
from agents.process import report_calmly, stop_on_signals
from agents.reporter import Reporter
from agents.spool import SpoolInUse
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings
from domain.records import Report
from wire.source import detail_text
from wire.topics import Topics

log = structlog.get_logger("agents.probe")

# The scenario that probes report to.
SCENARIO = "connectivity"
# A target that starts together with its probes must be up this many times in a row to be reported.
SETTLED = 3

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def variables(settings: Settings) -> dict[str, str]:
    """Return the values for `${...}` in probes.toml.

    Of several Kafka servers, the first is used.
    """
    host, _, port = settings.bootstrap.split(",")[0].strip().rpartition(":")
    everywhere = settings.http_host in ("0.0.0.0", "::")  # noqa: S104 - nobody's own address
    return {
        "TALLYBOARD_HTTP_HOST": "127.0.0.1" if everywhere else settings.http_host,
        "TALLYBOARD_HTTP_PORT": str(settings.http_port),
        "TALLYBOARD_TARGET_PORT": str(settings.target),
        "TALLYBOARD_KAFKA_HOST": host.strip("[]"),
        "TALLYBOARD_KAFKA_PORT": port,
    }


def watch(
    target: CheckTarget,
    agent: str,
    reporter: Reporter,
    stop: threading.Event,
    look: Callable[[CheckTarget], CheckResult] = check,
    beat: Callable[[], None] = lambda: None,
    clock_s: Callable[[], float] = time.monotonic,
) -> None:
    """Check one target at its interval until `stop`, and report each result not covered by its
    grace.

    beat: called after each check.
    """
    before, grace = "", Grace(target.grace, clock_s)
    # Probes that start together should not check at the same moment.
    pause_s = spread(agent, target.name, over=target.interval) / 1000
    while not stop.wait(pause_s):
        finding = look(target)
        if stop.is_set():
            return
        covered = grace.covers(finding)
        seen = f"{finding.state}, not reported yet" if covered else finding.state
        if seen != before:
            log.info("target", target=target.name, state=seen, **finding.detail)
            before = seen
        if not covered:
            detail = detail_text(finding.detail)
            report_calmly(reporter, Report(target.name, agent, finding.state, None, detail))
        beat()
        pause_s = target.interval / 1000


class Grace:
    """The time after a probe's start in which a target, also just started, may not be up yet.

    It ends once the target has been up SETTLED times in a row: from then on no outage is held back,
    and none before was reported as up. It also ends when its time is up, so that a target that
    never comes up is reported.
    """

    def __init__(self, ms: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s, self._ends_s = clock_s, clock_s() + ms / 1000
        self._over, self._ups = not ms, 0

    def covers(self, finding: CheckResult) -> bool:
        """Return whether a result must not be reported."""
        self._ups = self._ups + 1 if finding.state == UP else 0
        self._over = self._over or self._ups >= SETTLED or self._clock_s() >= self._ends_s
        return not self._over


def run(
    settings: Settings,
    agent: str,
    targets: list[CheckTarget],
    stop: threading.Event,
    *,
    leave: bool = True,
) -> None:
    """Watch all targets until `stop`, then wait briefly for reports in flight.

    leave: withdraw all votes at the end.
    """
    topic = Topics(settings.topic_prefix).reports(SCENARIO)
    bus, beat = KafkaBus(settings.kafka_options()), Pulse(settings.data_dir, agent).beat
    with Reporter(bus, topic, settings.data_dir / "spool" / agent) as reporter:
        threads = [
            threading.Thread(
                target=partial(watch, beat=beat), args=(target, agent, reporter, stop), daemon=True
            )
            for target in targets
        ]
        for thread in threads:
            thread.start()
        log.info("probing", agent=agent, targets=",".join(target.name for target in targets))
        stop.wait()
        reporter.close(2, leave=leave)  # later results are dropped
        log.info("stopping", confirmed=reporter.confirmed, unconfirmed=reporter.unconfirmed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("agents.probe", description=__doc__)
    parser.add_argument(
        "--as", dest="agent", type=_name, default="probe", help="the name to report under"
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="keep the votes on SIGTERM and SIGINT, for a restart under the same name",
    )
    return parser.parse_args(arguments)


def _name(text: str) -> str:
    if not _NAME.match(text):
        raise argparse.ArgumentTypeError("expected 1-64 letters, digits, '.', '_' or '-'")
    return text


def main() -> None:
    """Probe until SIGTERM."""
    arguments, settings = parse(), enter()
    configure_logs(settings.log_level, arguments.agent)
    try:
        targets = load_targets(settings.probes, variables(settings))
        run(settings, arguments.agent, targets, stop_on_signals(), leave=not arguments.stay)
    except (ProbesError, SpoolInUse) as error:
        sys.exit(f"probe: {error}")


if __name__ == "__main__":
    main()
