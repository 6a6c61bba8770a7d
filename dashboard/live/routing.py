"""Websocket addresses."""

from django.urls import path

from dashboard.live.consumer import BoardConsumer

websocket_urlpatterns = [path("ws/board/<str:scenario>/", BoardConsumer.as_asgi())]
