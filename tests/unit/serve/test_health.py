"""Whether a process lives, as a container asks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from config import pulse
from config.pulse import Pulse, age_s, path_of
from config.settings import Settings
from ops.health import process_problem


def settings(data_dir: Path, **more: object) -> Settings:
    return Settings(_env_file=None, data_dir=data_dir, **more)  # type: ignore[arg-type,call-arg]


def test_a_process_that_beats_lives(tmp_path: Path):
    assert process_problem(settings(tmp_path), "job") == "job has given no sign of life yet"
    Pulse(tmp_path, "job").beat()
    assert process_problem(settings(tmp_path), "job") == ""
    long_ago = time.time() - 100
    os.utime(path_of(tmp_path, "job"), (long_ago, long_ago))
    assert process_problem(settings(tmp_path), "job") == "job gave its last sign of life 100 s ago"


def test_it_is_written_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = [10.0]
    monkeypatch.setattr(pulse.time, "monotonic", lambda: now[0])
    beating = Pulse(tmp_path, "job")
    beating.beat()
    path_of(tmp_path, "job").unlink()
    beating.beat()
    assert age_s(tmp_path, "job") is None
    now[0] += 1
    beating.beat()
    assert age_s(tmp_path, "job") is not None


def test_a_sign_that_cannot_be_written_ends_nothing(tmp_path: Path):
    (tmp_path / "pulse").write_text("no folder")
    Pulse(tmp_path, "job").beat()


class Board(BaseHTTPRequestHandler):
    """Answers only under its own name, as the web server does."""

    def do_GET(self) -> None:
        named = self.headers["Host"] == "board.example.org"
        self.send_response(200 if named and self.path == "/healthz" else 400)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Board) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_the_web_server_is_asked_under_a_name_that_it_has(tmp_path: Path, port: int):
    named = settings(tmp_path, http_port=port, allowed_hosts=".board.example.org,other")
    assert process_problem(named, "web") == ""
    assert "400" in process_problem(settings(tmp_path, http_port=port), "web")


def test_one_that_does_not_answer_is_told(tmp_path: Path):
    assert "does not answer" in process_problem(settings(tmp_path, http_port=1), "web")
