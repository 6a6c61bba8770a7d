"""Websocket addresses."""

websocket_urlpatterns: list = []
