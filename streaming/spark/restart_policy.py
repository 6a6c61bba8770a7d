"""When a query is started again, and when a process ends."""

from __future__ import annotations

import os
import re
import signal
import threading
from types import FrameType
from typing import NamedTuple

# ---- restart policy ------------------------------------------------------------------------------
# Errors that pass by waiting, and errors that stay until somebody does something.


class Verdict(NamedTuple):
    """Whether an error passes by itself; `advice`: what to do about one that does not."""

    passes: bool
    advice: str


# Spark's word for Real-time Mode without room.
TOO_FEW_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"

_STAYS = (
    (
        r"UnknownFoldVersion",
        "the log was written for a newer release: run that one, or a newer one still",
    ),
    (
        r"ForeignCheckpoint",
        (
            "the checkpoint is another log's: give this job a place "
            "of its own (TALLYBOARD_CHECKPOINT, TALLYBOARD_DATA_DIR), or the cluster and "
            "TALLYBOARD_TOPIC_PREFIX of the checkpoint; only where the log itself was moved here, "
            "record by record, delete identity.json there"
        ),
    ),
    (
        TOO_FEW_SLOTS,
        "the query needs more slots than there are: raise N of TALLYBOARD_SPARK_MASTER=local[N]",
    ),
    (
        r"but expected \d+: a topic's partition count is fixed|expected \d+: a topic's partition",
        (
            "a topic's partition count was changed, which moves its keys: restore the topic, "
            "or name another TALLYBOARD_TOPIC_PREFIX"
        ),
    ),
    (
        r"AccessControlException|AccessDeniedException|NoAuthWithAWSException|Status Code: 403",
        (
            "the storage of the checkpoints refuses the job: check its rights there, and the "
            "credentials in Hadoop's configuration (HADOOP_CONF_DIR) or the environment"
        ),
    ),
    (
        r"UnsupportedFileSystem|No FileSystem for|Class org\.apache\.hadoop\.fs\.\S+ not found",
        (
            "Spark has no client for the storage of the checkpoints: name its archives "
            "(TALLYBOARD_SPARK_JARS)"
        ),
    ),
    (
        r"KeysProblem",
        (
            "the keys of commands cannot be read, and without them nothing can be decided: put "
            "their file back, and the job goes on by itself"
        ),
    ),
    (
        r"^WrongSetting: ",
        (
            "a topic of reports has a setting with which states come out wrong: correct it, "
            "and the job goes on by itself"
        ),
    ),
    (
        r"^ScenarioClaimed: ",
        (
            "another job carries a scenario of this one: give both the same "
            "TALLYBOARD_JOB_SCENARIOS, and restart the other; this one goes on by itself once the "
            "other has been silent for 30 s"
        ),
    ),
    (
        r"^LogReplaced: ",
        (
            "a topic was deleted and created again: have the job read the new log, or reset the "
            "pipeline, on the job's page"
        ),
    ),
    (
        r"the log ends at|some data may have been missed|KAFKA_DATA_LOSS",
        (
            "the log does not hold what the checkpoint goes on from: was a topic deleted? "
            "Have it read the log again (Replay)"
        ),
    ),
    (
        r"the log shows epoch \d+, and the highest is",
        (
            "a record names an epoch that no job has written: find out who may write to the "
            "topics of states and to job.buckets, and delete the topic that holds it"
        ),
    ),
    (
        r"InvalidTimestamp: ",
        (
            "a record has no valid timestamp, and the pipeline is declared to fail then: change "
            "its invalid_time, or reset it once the record is gone"
        ),
    ),
    (
        r"TableProblem: ",
        "the table cannot be written: look at its URL, the rights and the room there",
    ),
    (
        r"(?i)authoriz|authenticat|sasl",
        (
            "Kafka refuses the job: check user and password (TALLYBOARD_KAFKA_USERNAME, "
            "TALLYBOARD_KAFKA_PASSWORD), and the user's rights on the topic or group that is named"
        ),
    ),
    (
        r"STATE_STORE|STATE_SCHEMA|STATEFUL_OPERATOR|CANNOT_LOAD_STATE|UnreadableAsset",
        "the checkpoint's state cannot be read: have it read the log again (Replay)",
    ),
    (
        r"UnreadableSeed|UnreadableStart",
        "what the epoch begins with cannot be read: ask for another reset",
    ),
    (
        r"No space left on device|Permission denied|Read-only file system",
        "the data directory, or the place of the checkpoints, cannot be written",
    ),
    (
        r"PythonException|PYTHON_EXCEPTION|Traceback \(most recent call last\)",
        "the fold raised an error on this log: it will do so again until it is corrected",
    ),
)
_PASSES = re.compile(
    r"ExecutorLost|executor lost|Connection refused|Connection reset|EOFException|"
    r"TimeoutException|DisconnectException|NotLeaderOrFollower|UnknownTopicOrPartition|"
    r"Python worker exited unexpectedly|PYTHON_WORKER|TaskResultLost|FetchFailed|Unavailable"
)


def judge(text: str, *, one_machine: bool = True) -> Verdict:
    """Return whether an error passes by itself, judged by its text. Unknown errors do.

    one_machine: a cluster gets its executors back, and does with fewer slots meanwhile.
    """
    if not one_machine and TOO_FEW_SLOTS in text:
        return Verdict(True, "")
    for pattern, advice in _STAYS[:-1]:
        if re.search(pattern, text):
            return Verdict(False, advice)
    pattern, advice = _STAYS[-1]
    if not _PASSES.search(text) and re.search(pattern, text):
        return Verdict(False, advice)
    return Verdict(True, "")


def first_line(text: str, limit: int = 300) -> str:
    """Return an error's last cause, else its first line, at most `limit` characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0] if lines else "no message")[:limit]


# ---- signals -------------------------------------------------------------------------------------
# How a process of Spark ends when it is asked to.

# From the signal to the end, at most.
PATIENCE_S = 7.0


def stop_on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT set `stop`, and end the process when that takes too long."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            last = threading.Timer(PATIENCE_S, os._exit, args=(1,))
            last.daemon = True
            last.start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
