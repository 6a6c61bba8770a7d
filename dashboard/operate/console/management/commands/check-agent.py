"""`manage.py check-agent SCENARIO [AGENT]`: what an agent sends, as the job reads it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.core.common.kafka import gateway
from dashboard.core.common.scenarios import scenarios
from dashboard.operate.console.agent_records import follow
from dashboard.operate.console.kafka_tools import in_words, stop_at_signals, whole

MOST = 1_000


class Command(BaseCommand):
    """The command that prints an agent's records with what the job makes of each."""

    help = (
        "Print an agent's last records in a scenario's log, and each new one until Ctrl-C: where "
        "it lies, whether the job takes it, and if not, what was expected and what it got."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the scenario, the agent, --last and --once."""
        parser.add_argument("scenario", help="as scenarios.toml names it")
        parser.add_argument("agent", nargs="?", default="", help="its name; left out: any agent")
        parser.add_argument(
            "--last", type=whole(0, MOST), default=20, help="how many there were before (20)"
        )
        parser.add_argument("--once", action="store_true", help="do not wait for new ones")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print until all is printed, or until stopped. Raises CommandError."""
        scenario = scenarios().get(options["scenario"])
        if scenario is None:
            known = ", ".join(sorted(scenarios()))
            raise CommandError(f"scenario: expected one of {known}, got {options['scenario']!r}")
        to, printed = gateway(), 0
        with in_words(), stop_at_signals() as stop:
            for line in follow(
                to.bus,
                to.topics.reports(scenario.name),
                scenario,
                options["agent"],
                last=options["last"],
                stop=stop,
                on=not options["once"],
            ):
                self.stdout.write(line)
                self.stdout.flush()
                printed += 1
        if options["once"] and not printed:
            self.stderr.write("no record of this agent among the newest; check topic and broker")
