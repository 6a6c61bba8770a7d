"""The REST interface, health checks and metrics."""
