"""All that is kept for a time: each feature declares its own. docs/operations.md has the table."""

from __future__ import annotations

from dashboard.accounts.retention import KEPT as ACCOUNTS
from dashboard.agents.retention import KEPT as AGENTS
from dashboard.annotations.retention import KEPT as ANNOTATIONS
from dashboard.audit.retention import KEPT as AUDIT
from dashboard.bulk.retention import KEPT as BULK
from dashboard.console.samples import KEPT as SAMPLES
from dashboard.core.retention import Retention, Thinning
from dashboard.dead_letters.retention import KEPT as DEAD_LETTERS
from dashboard.job.retention import KEPT as JOB
from dashboard.labels.retention import KEPT as LABELS
from dashboard.replays.retention import KEPT as REPLAYS
from dashboard.state_store.retention import KEPT as READINGS
from dashboard.states.retention import KEPT as STATES
from dashboard.what_if.retention import KEPT as TRIALS

KEPT: tuple[Retention | Thinning, ...] = (
    *STATES,
    *LABELS,
    *AGENTS,
    *ANNOTATIONS,
    *DEAD_LETTERS,
    *BULK,
    *JOB,
    *SAMPLES,
    *READINGS,
    *TRIALS,
    *REPLAYS,
    *ACCOUNTS,
    *AUDIT,
)
