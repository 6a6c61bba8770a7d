"""What every bench's command line shares."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.report import body, busy_words
from bench.results import FOLDER, Clock, Result, Row, write
from bench.stack import INTERRUPTS, BenchProblem, Engine, say

# The rows of a bench's table, and everything that was measured.
Measured = tuple[list[Row], list[dict[str, Any]]]

ENGINES = (Engine("kernel"), Engine("python"))


def parser_of(description: str | None, *, engines: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the options that every bench has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if engines:
        parser.add_argument(
            "--engines",
            type=engines_of,
            default=ENGINES,
            metavar="A,B",
            help="kernel, kernel:micro-batch, python, with commas (kernel,python)",
        )
        parser.add_argument("--keep", action="store_true", help="keep logs and checkpoints")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="keep the result there (bench/results when no option is given)",
    )
    return parser


def engines_of(text: str) -> tuple[Engine, ...]:
    """Read engines with commas between."""
    try:
        return tuple(Engine.parse(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(
    bench: str,
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], Measured],
    tables_of: Callable[[Result], Iterable[Result]] | None = None,
) -> None:
    """Measure as the command line says, print the table, keep it where that is requested.

    tables_of: splits a result into those that are kept and shown each by itself; None: it is one.

    Ends with one message when it cannot be measured, and with 130 when it is interrupted.
    """
    options, given = parser.parse_args(), sys.argv[1:]
    folder = options.results or (None if given else FOLDER)
    for number in INTERRUPTS:  # SIGINT too: what a shell runs in the background is deaf to it
        signal.signal(number, signal.default_int_handler)
    clock = Clock()
    try:
        rows, runs = measure(options)
    except KeyboardInterrupt:
        sys.exit(130)
    except BenchProblem as problem:
        sys.exit(f"bench {bench}: {problem}")
    command = (
        f"make bench-{bench}" if not given else module_command(bench, *recorded_arguments(given))
    )
    result = clock.result(bench, command, rows, runs)
    print(body(result))
    print(f"{busy_words(result.machine)}.")
    if folder:
        for table in tables_of(result) if tables_of else [result]:
            say(f"kept: {write(table, folder)}")


def recorded_arguments(given: list[str]) -> list[str]:
    """Return the arguments that a result tells of: not where it is kept."""
    named = [at for at, text in enumerate(given) if text == "--results"]
    return [
        text
        for at, text in enumerate(given)
        if at not in named and at - 1 not in named and not text.startswith("--results=")
    ]


def module_command(bench: str, *arguments: str) -> str:
    """Return the command line of a bench with these arguments."""
    return shlex.join(["python", "-m", f"bench.{bench}", *arguments])
