"""Notifications where connections to PostgreSQL are cut, and processes killed, in mid-transaction.

Materialiser, worker and notifier are the product's processes; mail server and web server are real
too. A trigger holds a statement of theirs at a lock that the test has: there it strikes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config.settings import Settings
from domain.records import Cause, StateRecord, Vote
from domain.scenario_parser import load_scenarios
from domain.version import Version
from ops.processes import processes
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from support.web.postgresql import empty_database
from support.web.receivers import HookServer, MailServer, hook_server, mail_server
from wire.sink import encode_headers, encode_state
from wire.topics import Topics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.extensive(
        guard="tests/web/notify/test_notification_delivery.py::"
        "test_a_connection_that_is_cut_while_rules_decide_leaves_nothing_and_loses_nothing"
    ),
]

PREFIX = "notification-faults."
LOCK = (4711, 7)
"""Of the test alone: the product has no lock of these numbers."""
HOLD = f"""
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock{LOCK}; RETURN NEW; END $$
"""
WAITS = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND classid = %s AND objid = %s
"""
SENT = "SELECT count(*) FROM notifications_message WHERE status = 'sent' AND subject LIKE %s"
OPEN = "SELECT count(*) FROM notifications_message WHERE ended_at IS NULL"
TRIES = """
SELECT number, succeeded FROM notifications_attempt AS a
JOIN notifications_message AS m ON m.id = a.message_id
WHERE m.subject LIKE %s AND m.means = %s ORDER BY number
"""
UNHANDLED = "SELECT count(*) FROM notifications_incidentevent WHERE handled_at IS NULL"
STORED = {
    "materialiser": "SELECT count(*) FROM states_assetstate WHERE asset = %s",
    "events": "SELECT count(*) FROM notifications_incidentevent WHERE asset = %s",
}
SET_UP = """
from dashboard.core.accounts.encryption import seal
from dashboard.notify.notifications.models import Channel, Rule
from dashboard.notify.notifications.channels import new_secret
by = {{"changed_at": 1, "username": "olga"}}
mail = Channel.objects.create(name="mail", kind="mail", address="soc@example.org", **by)
hook = Channel.objects.create(
    name="hook", kind="webhook", address="{url}", secret=seal(new_secret()), **by)
definition = {{
    "window_ms": 0, "group_by": ["asset"], "stages": [{{"channels": [mail.pk, hook.pk]}}]}}
Rule.objects.create(name="All", definition=definition, **by)
"""
NOTICE = """
INSERT INTO notifications_tasknotice (
    scenario, asset, place, task, owner, reason, state, condition, at, recorded_at, due_at, held,
    outcome
) VALUES (
    'attack', %s, %s, gen_random_uuid(), 'olga', 'watch it', 'under-attack', 'under-attack',
    %s, %s, %s, '{}', '')
"""


class Faults:
    """The product's processes on a PostgreSQL database, and what strikes them."""

    def __init__(self, environment: dict[str, str], database: str, bus: KafkaBus) -> None:
        self.environment, self.bus = environment, bus
        self.database = psycopg.connect(database, autocommit=True)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.offset = 0

    # ---- processes ----

    def start(self, name: str) -> None:
        """Start a process as the supervisor does."""
        [process] = processes(Settings(), [name])
        self.running[name] = subprocess.Popen(
            process.command, cwd=ROOT, env=self.environment, start_new_session=True
        )

    def kill(self, name: str) -> None:
        """Kill a process and its children as `kill -9` does."""
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """Kill what runs."""
        for name in list(self.running):
            self.kill(name)
        self.database.close()

    # ---- what happens ----

    def attack(self, asset: str) -> None:
        """Say of an asset, as the job does, that it is under attack."""
        self.offset += 1
        now = _now_ms()
        record = StateRecord(
            asset=asset, state="under-attack", previous=None, since=now, unconfirmed=False,
            version=Version(1, self.offset, 0),
            cause=Cause("report", 0, self.offset, now, agent="waf-1"),
            votes=(Vote("waf-1", "under-attack", now, now, self.offset, None, 1),),
        )  # fmt: skip
        producer = self.bus.producer()
        producer.send_and_wait(
            Topics(PREFIX).states("attack"), asset.encode(), encode_state(record),
            headers=encode_headers(record),
        )  # fmt: skip
        producer.close()

    def notify_by_task(self, asset: str) -> None:
        """Store, as the materialiser does, that a scheduled task of an asset notifies."""
        now = _now_ms()
        self.database.execute(NOTICE, (asset, f"{asset}-1", now, now, now))

    # ---- faults ----

    @contextmanager
    def held(self, table: str, event: str, condition: str = "true") -> Iterator[Callable[[], int]]:
        """Hold what writes such a row to a table. Yields what waits for one that is held, and
        returns the id of its server process."""
        trigger = f"CREATE TRIGGER held BEFORE {event} ON {table} FOR EACH ROW"
        self.database.execute("SELECT pg_advisory_lock(%s, %s)", LOCK)
        self.database.execute(f"{trigger} WHEN ({condition}) EXECUTE FUNCTION hold()")
        try:
            yield self._wait_held
        finally:
            self.database.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK)
            self.database.execute(f"DROP TRIGGER held ON {table}")

    def _wait_held(self) -> int:
        wait_until(lambda: self.rows(WAITS, *LOCK), 60, "nobody came to the lock")
        return int(self.rows(WAITS, *LOCK)[0][0])

    def cut(self, pid: int) -> None:
        """Cut the connection that a server process serves, and wait until it is gone."""
        self.database.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        assert not self.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid)

    # ---- what came of it ----

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a question has now."""
        return self.database.execute(sql, values).fetchall()

    def count(self, sql: str, *values: Any) -> int:
        """Return the count that a question asks for."""
        return int(self.rows(sql, *values)[0][0])

    def wait_all_sent(self, asset: str, messages: int = 2) -> None:
        """Wait until messages of an asset are sent, and nothing is left that could send another."""
        sent = (
            "SELECT count(*) FROM notifications_message WHERE status = 'sent' AND subject LIKE %s"
        )
        wait_until(
            lambda: (
                self.count(sent, f"%{asset}%") == messages
                and self.count(OPEN) == self.count(UNHANDLED) == 0
            ),
            60,
            f"not all of {asset} was sent",
        )

    def let_leases_end(self) -> None:
        """A minute passes, for who holds a message."""
        self.database.execute("UPDATE notifications_message SET lease_until = 0")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture(scope="module")
def product(
    url: str,
    broker: EmbeddedBroker,
    mails: MailServer,
    hooks: HookServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Faults]:
    """Materialiser, workers and Beat, with a rule that tells a mail address and a webhook."""
    database = empty_database(url, "notification_faults")
    environment = os.environ | {
        "TALLYBOARD_DATA_DIR": str(tmp_path_factory.mktemp("faults")),
        "TALLYBOARD_DATABASE_URL": database,
        "TALLYBOARD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "TALLYBOARD_TOPIC_PREFIX": PREFIX,
        "TALLYBOARD_PRIVATE_TARGETS": "1",
        "TALLYBOARD_SMTP_HOST": "127.0.0.1",
        "TALLYBOARD_SMTP_PORT": str(mails.port),
        "TALLYBOARD_SMTP_TLS": "none",
        "TALLYBOARD_LOG_LEVEL": "warning",
    }
    manage(environment, "migrate", "-v", "0")
    manage(environment, "shell", "-v", "0", "-c", SET_UP.format(url=hooks.url))
    bus = KafkaBus(broker.settings().kafka_options())
    scenarios = load_scenarios(ROOT / "scenarios.toml", demo=True)
    bus.ensure_topics(TopicSpec(*spec) for spec in Topics(PREFIX).specs(scenarios.values()))
    faults = Faults(environment, database, bus)
    faults.database.execute(HOLD)
    try:
        for name in ("materialiser", "worker", "notifier", "beat"):
            faults.start(name)
        yield faults
    finally:
        faults.end()


def manage(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True)


def mail_ids(mails: MailServer, asset: str) -> list[str]:
    """The ids of the mails about an asset, in the order in which they came."""
    return [mail["Message-ID"] for mail in mails.mails if asset in mail["Subject"]]


def hook_ids(hooks: HookServer, asset: str) -> list[str]:
    """The keys of the posts about an asset, in the order in which they came."""
    return [each.headers["Idempotency-Key"] for each in hooks.posted if asset.encode() in each.body]


def test_the_materialisers_connection_is_cut_while_it_stores_an_incident(product, mails, hooks):
    with product.held("notifications_incidentevent", "INSERT") as wait_held:
        product.attack("cut-store")
        product.cut(wait_held())
        assert [product.count(sql, "cut-store") for sql in STORED.values()] == [0, 0]
    product.wait_all_sent("cut-store")
    assert [product.count(sql, "cut-store") for sql in STORED.values()] == [1, 1]
    assert len(mail_ids(mails, "cut-store")) == len(hook_ids(hooks, "cut-store")) == 1


def test_the_notifiers_connection_is_cut_while_it_decides(product, mails, hooks):
    with product.held("notifications_message", "INSERT") as wait_held:
        product.attack("cut-decision")
        product.cut(wait_held())
        assert product.count(UNHANDLED) == 1
    product.wait_all_sent("cut-decision")
    assert len(mail_ids(mails, "cut-decision")) == len(hook_ids(hooks, "cut-decision")) == 1


def test_the_notifiers_connection_is_cut_while_it_claims_a_message(product, mails, hooks):
    with product.held("notifications_attempt", "INSERT") as wait_held:
        product.attack("cut-claim")
        product.cut(wait_held())
        assert product.count(OPEN) == 2
    product.wait_all_sent("cut-claim")
    assert len(mail_ids(mails, "cut-claim")) == len(hook_ids(hooks, "cut-claim")) == 1


@pytest.mark.parametrize("means", ["mail", "webhook"])
@pytest.mark.parametrize("fault", ["cut", "kill"])
def test_what_was_accepted_and_not_stored_comes_again_under_its_id(
    product, mails, hooks, fault, means
):
    asset = f"{fault}-{means}"
    accepted = f"NEW.status = 'sent' AND NEW.means = '{means}'"
    with product.held("notifications_message", "UPDATE", accepted) as wait_held:
        product.attack(asset)
        pid = wait_held()
        product.cut(pid) if fault == "cut" else product.kill("notifier")
    if fault == "kill":
        product.start("notifier")
    product.let_leases_end()
    product.wait_all_sent(asset)
    twice, once = mail_ids(mails, asset), hook_ids(hooks, asset)
    if means == "webhook":
        twice, once = once, twice
    assert (len(twice), len(set(twice)), len(once)) == (2, 1, 1)
    assert product.rows(TRIES, f"%{asset}%", means) == [(1, False), (2, True)]


def test_a_notifier_killed_while_it_decides_on_a_scheduled_task_has_done_nothing(
    product, mails, hooks
):
    undecided = "SELECT count(*) FROM notifications_tasknotice WHERE due_at IS NOT NULL"
    with product.held("notifications_message", "INSERT") as wait_held:
        product.notify_by_task("kill-task")
        wait_held()
        product.kill("notifier")
        assert product.count(undecided) == 1
    assert product.count(OPEN) == 0
    product.start("notifier")
    product.wait_all_sent("kill-task")
    assert product.count(undecided) == 0
    assert len(mail_ids(mails, "kill-task")) == len(hook_ids(hooks, "kill-task")) == 1
