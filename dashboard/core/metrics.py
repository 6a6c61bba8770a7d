"""What the web side counts and tells, by name and meaning; docs/rest.md lists it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

# ---- counted in the web process ---------------------------------------------------------------

UNREADABLE = Counter(
    "tallyboard_unreadable_sink_records_total",
    "Sink records that this web process could not read",
    ["topic"],
)
API_REQUESTS = Counter(
    "tallyboard_api_requests_total",
    "Requests under /api, by method, route and status",
    ["method", "route", "status"],
)
API_PROBLEMS = Counter(
    "tallyboard_api_problems_total", "Requests refused with a problem, by its reason", ["reason"]
)
API_REPORTS = Counter(
    "tallyboard_api_reports_total",
    "Reports that came over HTTP, by way (reports, alertmanager) and outcome (accepted, a reason)",
    ["way", "outcome"],
)
LIMITED = Counter(
    "tallyboard_limited_total",
    "Requests refused by a limit: requests, commands, reports, fetches, logins, account, "
    "tokens, forms, acknowledgements, notes, handovers, bodies, slow, connections, boards",
    ["limit"],
)
LOG_RECORDS = Counter(
    "tallyboard_log_records_total",
    "Records of the log fetched for a page, by outcome: shown, or why not",
    ["outcome"],
)
AUDITED = Counter(
    "tallyboard_audit_entries_total",
    "Entries of the audit, by outcome: written, or lost (then logged whole)",
    ["outcome"],
)
LOGINS = Counter("tallyboard_logins_total", "Logins, by outcome: ok, failed, limited", ["outcome"])

# ---- told of the whole, read when it is asked for ---------------------------------------------


class Told(NamedTuple):
    """What is read from the database or the broker at each scrape; a counter by its `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(
        self, values: Iterable[tuple[tuple[str, ...], float]]
    ) -> GaugeMetricFamily | CounterMetricFamily:
        """The metric with these values, by their labels."""
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family


_BUCKET = ("scenario", "partition")

BROKER_UP = Told("tallyboard_broker_up", "1 where the broker answers, else 0")
BUCKET_OFFSET = Told("tallyboard_bucket_offset", "Last offset that a bucket has applied", _BUCKET)
BUCKET_LOG_TIME = Told(
    "tallyboard_bucket_log_time_seconds", "Log time that a bucket has reached, Unix s", _BUCKET
)
BUCKET_LAG = Told(
    "tallyboard_bucket_lag_records", "Records in the log that a bucket has not applied", _BUCKET
)
BUCKET_LAG_SECONDS = Told(
    "tallyboard_bucket_lag_seconds", "How far a bucket's log time is behind now, s", _BUCKET
)
BUCKET_AHEAD_SECONDS = Told(
    "tallyboard_bucket_ahead_seconds",
    "How far a bucket's clock is ahead of the job's own, s, 0 up to five: anything else is a fault",
    _BUCKET,
)
LATE_REPORTS = Told(
    "tallyboard_late_reports_total",
    "Reports that came too late, by kind: stale, late, silent",
    (*_BUCKET, "kind"),
)
BUCKET_ASSETS = Told("tallyboard_bucket_assets", "Assets of a bucket", _BUCKET)
BUCKET_DUES = Told("tallyboard_bucket_dues", "Dues that wait in a bucket", _BUCKET)
JOB_STATUS = Told(
    "tallyboard_job_status", "1 for the status that a query told last", ("query", "status")
)
JOB_RESTARTS = Told(
    "tallyboard_job_restarts", "Restarts of a query since its process began", ("query",)
)
SINK_LAG = Told(
    "tallyboard_materialiser_lag_records",
    "State records that the database has not seen yet",
    ("topic", "partition"),
)
MATERIALISED = Told(
    "tallyboard_materialised_records_total", "Sink records that the database stands for", ("topic",)
)
PASSED_OVER = Told(
    "tallyboard_materialiser_unreadable_records_total",
    "Sink records that the materialiser passed over, as nothing can read or keep them",
    ("topic",),
)
GAPS = Told("tallyboard_sink_gaps_total", "Starts that a sink topic no longer held", ("topic",))
MATERIALISER_FAULTS = Told(
    "tallyboard_materialiser_faults_total",
    "Faults of broker or database after which the materialiser began again",
)
BATCHES = Told("tallyboard_materialiser_batches_total", "Transactions of the materialiser")
BATCH_SECONDS = Told("tallyboard_materialiser_batch_seconds_total", "What they took together, s")
TASK_TIME = Told(
    "tallyboard_task_time_seconds",
    "When a run of a worker's task last had this status, Unix s",
    ("task", "status"),
)
TASK_SECONDS = Told(
    "tallyboard_task_duration_seconds", "What a task's last successful run took, s", ("task",)
)
SNAPSHOT_TIME = Told(
    "tallyboard_snapshot_time_seconds",
    "When the newest snapshot of a bucket's fold was taken, Unix s",
    _BUCKET,
)
DIVERGED = Told(
    "tallyboard_divergences_found", "Divergences in the database: anything above 0 is a fault"
)
DOUBTED = Told(
    "tallyboard_doubted_assets",
    "Assets on the board that are disputed or unconfirmed, or on which an agent's vote is silent",
    ("scenario", "doubt"),
)
DEAD_LETTERS = Told("tallyboard_dead_letters", "Dead letters in the database", ("fate", "reason"))
REFUSED_COMMANDS = Told(
    "tallyboard_refused_commands_total",
    "Records that commanded something and were refused for their signature, by topic and reason",
    ("topic", "reason"),
)
SOCKETS = Told("tallyboard_sockets_open", "Open sockets of this web process")
