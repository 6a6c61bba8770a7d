"""What reports: a client library, a probe, a simulator, a target; the tills; logs into Kafka."""

from agents.log_handler import KafkaHandler
from agents.reporter import Reporter, ReportRefused
from agents.spool import SpoolFull, SpoolInUse

__all__ = ["KafkaHandler", "ReportRefused", "Reporter", "SpoolFull", "SpoolInUse"]
