"""The time from a message in the outbox to its receiver's answer, while large tables of labels are
applied: `python -m bench.notifications`.

The workers are real, as the supervisor starts them; the receiver is a web server in this process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.busyness import printed_busyness
from bench.figures import Delays
from bench.load import MAJORITY, SCENARIO
from bench.stack import BenchProblem, Product, say
from config.settings import Settings
from ops.leftovers import descendants
from ops.ports import free_port
from ops.processes import processes

WORKERS = ("worker", "notifier", "beat")
EVERY_S = 0.2
"""A message is put into the outbox so often."""
WAIT_S = 120.0
KEYS = 9
"""Labels of an asset."""


def main() -> None:
    """Measure as the options say, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--tables", type=int, default=2, help="of labels, applied meanwhile (2)")
    parser.add_argument("--assets", type=int, default=100_000, help="in a table (100,000)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tallyboard-bench-"))
    changes = {"PRIVATE_TARGETS": 1, "DEMO": 0, "KAFKA_BOOTSTRAP": f"127.0.0.1:{free_port()}"}
    copy = Product(folder, MAJORITY.format(lifetime="1h"), changes)
    try:
        with _receiver() as port, printed_busyness():
            delays, memory = measure(copy, options, port)
    except BenchProblem as problem:
        sys.exit(f"bench notifications: {problem}")
    finally:
        copy.end()
        shutil.rmtree(folder, ignore_errors=True)
    _print(delays, memory)


def measure(
    copy: Product, options: argparse.Namespace, port: int
) -> tuple[Delays, dict[str, float]]:
    """Send messages while tables are applied. Returns how long each took, and the memory of each
    worker, MiB. Raises BenchProblem."""
    os.environ |= copy.environment() | {"DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    _prepare()
    say(f"{options.tables} tables of {options.assets * KEYS:,} labels")
    for number in range(options.tables):
        _begin_table(number, options.assets)
    target = _webhook(port)
    workers = processes(Settings(), WORKERS)
    for process in workers:
        copy.start(process.name, *process.command[1:])
    copy.wait(_applies, WAIT_S, "the tables to be applied")
    say(f"  applied; {options.seconds} s of messages")
    begun = time.monotonic()
    put = 0
    while (elapsed := time.monotonic() - begun) < options.seconds:
        if elapsed >= put * EVERY_S:
            _put(target, put)
            put += 1
        time.sleep(EVERY_S / 20)
    if not _applies():
        raise BenchProblem("the tables were applied before the end: ask for more")
    copy.wait(_all_sent, WAIT_S, "all to be sent")
    memory = {process.name: _pss_mib(copy.pid(process.name)) for process in workers}
    return Delays.of(_delays()), memory


def _prepare() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _begin_table(number: int, assets: int) -> None:
    """Have a table of labels of its own applied, as a user does who sends and confirms it."""
    from django.contrib.auth.models import Group, User

    from dashboard.core.audit.log import Actor
    from dashboard.core.common.times import now_ms
    from dashboard.watch.annotations.label_files import UploadTask
    from dashboard.watch.annotations.label_uploads import keep
    from dashboard.watch.annotations.models import REVIEW

    user, _ = User.objects.get_or_create(username="olga")
    user.groups.add(Group.objects.get(name="operator"))
    keys = ",".join(f"key-{number}-{key}" for key in range(KEYS))
    values = ",".join(["value"] * KEYS)
    lines = [f"asset,{keys}", *(f"site-{n},{values}" for n in range(assets))]
    upload = keep(user, SCENARIO, f"{number}.csv", "\n".join(lines).encode(), now_ms())
    task = UploadTask(upload)
    while upload.status != REVIEW:
        task.step()
    upload.start(Actor(user.pk, "olga", "operator", "page"), now_ms())


def _webhook(port: int) -> Any:
    from dashboard.core.accounts.encryption import seal
    from dashboard.notify.notifications.channels import new_secret
    from dashboard.notify.notifications.models import Channel
    from dashboard.notify.notifications.outbox import Recipient

    url = f"http://127.0.0.1:{port}/"
    channel = Channel.objects.create(
        name="bench", kind="webhook", address=url, secret=seal(new_secret()), most=1_000_000,
        changed_at=1, username="olga",
    )  # fmt: skip
    return Recipient("webhook", url, channel)


def _put(target: Any, number: int) -> None:
    from dashboard.core.common.times import now_ms
    from dashboard.notify.notifications.outbox import MessageDraft, put

    put(target, MessageDraft("test", f"message {number}", "text"), now_ms())


def _applies() -> bool:
    from dashboard.watch.annotations.models import APPLYING, LabelUpload

    return LabelUpload.objects.filter(status=APPLYING, done__gt=0).exists()


def _all_sent() -> bool:
    from dashboard.notify.notifications.models import Message

    return not Message.objects.open().exists()


def _delays() -> list[float]:
    from dashboard.notify.notifications.models import SENT, Message

    sent = Message.objects.filter(status=SENT).values_list("created_at", "ended_at")
    return [float((ended or 0) - created) for created, ended in sent]


def _pss_mib(pid: int) -> float:
    """Return the memory of a process and all below it, shared pages in parts, MiB."""
    total = 0
    for each in (pid, *descendants(pid)):
        lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@contextmanager
def _receiver() -> Iterator[int]:
    """Run a web server that accepts every post. Yields its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


def _print(delays: Delays, memory: dict[str, float]) -> None:
    print(f"{delays.count} messages while tables of labels were applied, from outbox to answer:")
    print(f"  p50 {delays.p50:,.0f} ms, p99 {delays.p99:,.0f} ms, at most {delays.most:,.0f} ms")
    for name, mib in memory.items():
        print(f"  {name}: {mib:,.0f} MiB (PSS)")


if __name__ == "__main__":
    main()
