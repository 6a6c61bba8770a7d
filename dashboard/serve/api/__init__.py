"""REST, health checks and metrics."""
