"""The Django project: pages, websockets, REST, the materialiser."""

from dashboard.celery import app

__all__ = ["app"]
