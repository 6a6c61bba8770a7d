"""What reports: a client library, a probe, a simulator, and a target to watch."""

from agents.reporter import Reporter, ReportRefused
from agents.spool import SpoolFull, SpoolInUse

__all__ = ["ReportRefused", "Reporter", "SpoolFull", "SpoolInUse"]
