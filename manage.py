#!/usr/bin/env python
"""Django's command line."""

import os
import sys

import structlog


def main() -> None:
    """Run the command that the arguments name. What it prints is its answer alone: logs go to
    standard error."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    from django.core.management import execute_from_command_line

    from domain.scenario import ScenarioError

    try:
        execute_from_command_line(sys.argv)
    except ScenarioError as problem:
        sys.exit(f"TALLYBOARD_SCENARIOS: {problem}")


if __name__ == "__main__":
    main()
