"""`python -m streaming`: run the job until SIGTERM or SIGINT.

With TALLYBOARD_STANDBY another one may run beside it, which takes over when it ends; one that is
started with `--standby` lets the other one begin. `--job NAME` runs a job of its own, with the
scenarios that TALLYBOARD_JOB_SCENARIOS gives it. With TALLYBOARD_CHECKPOINT a job may run on each
of several machines: the first one leads.
"""

from __future__ import annotations

import argparse
import sys
import threading

from config.entry import enter
from config.jobs import MAIN, process_of
from config.logs import configure_logs
from config.pulse import Pulse
from config.settings import Settings
from domain.scenario import ScenarioError
from streaming.job.leader_lock import LeaderLock, LockHeld, await_turn
from streaming.spark.jvm import JvmLost
from streaming.spark.restart_policy import stop_on_signals

STANDBY = "standby"


def main() -> None:
    """Run the job. Ends with one message when it cannot start, or when its JVM is lost."""
    settings, second = _settings()
    role = process_of(settings.job, STANDBY if second else "job")
    configure_logs(settings.log_level, role)
    stop = threading.Event()
    stop_on_signals(stop)
    lock, beat = LeaderLock(settings.checkpoint_dir), Pulse(settings.data_dir, role).beat
    beside = settings.standby and await_turn(settings, lock, stop, beat, second=second)
    if stop.is_set():
        return
    # Only now: what these import takes a second of a processor that a leader may need.
    from streaming.job.launch import Job
    from streaming.kernel import KernelProblem
    from streaming.spark.session import VersionProblem

    job = Job(settings, lock, stop, role, beat)
    try:
        spark = job.start_spark()
    except (ScenarioError, VersionProblem, KernelProblem, JvmLost, LockHeld) as problem:
        sys.exit(None if stop.is_set() else f"{role}: {problem}")
    try:
        if settings.standby or settings.checkpoint:
            job.run_as_candidate(spark, rehearsed=beside)
        else:
            job.run_alone(spark)
    except (JvmLost, LockHeld, ScenarioError) as problem:
        sys.exit(f"{role}: {problem}")


def _settings() -> tuple[Settings, bool]:
    """Return the settings of this process's job, and whether it lets another one begin."""
    parser = argparse.ArgumentParser(prog="python -m streaming", description=__doc__)
    parser.add_argument("--job", default=MAIN, help="name of a job of its own")
    parser.add_argument(f"--{STANDBY}", action="store_true", help="let another process begin")
    arguments = parser.parse_args()
    try:
        return enter().for_job(arguments.job), arguments.standby
    except ValueError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
