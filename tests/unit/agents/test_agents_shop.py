"""The programs of the demo's shop: their rate, and when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.demo import tills, visitors
from config.settings import Settings
from ops.processes import processes


@pytest.mark.parametrize("rate", ["0", "1001", "many"])
@pytest.mark.parametrize("parse", [tills.parse, visitors.parse])
def test_a_wrong_rate_is_refused(
    parse: Callable[..., Any], rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--rate", rate])
    assert "--rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pipelines", "demo", "expected"),
    [
        ("report-rates", True, set()),
        ("report-rates, loyalty", True, {"tills"}),
        ("invoices", True, {"tills"}),
        ("report-rates, product-counts", True, {"visitors"}),
        ("all", True, {"tills", "visitors"}),
        ("all", False, set()),
        ("none", True, set()),
    ],
)
def test_they_run_in_the_demo_beside_pipelines_that_read_what_they_write(
    pipelines: str, demo: bool, expected: set[str]
) -> None:
    settings = Settings(pipelines=pipelines, demo=demo, _env_file=None)  # type: ignore[call-arg]
    running = {process.name for process in processes(settings)}
    assert running & {"tills", "visitors"} == expected
