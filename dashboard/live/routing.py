"""Websocket addresses."""

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from dashboard.live.consumer import BoardConsumer

websocket_urlpatterns = [path("ws/board/<str:scenario>/", BoardConsumer.as_asgi())]


class Nowhere(AsyncWebsocketConsumer):
    """Every other address: refused (403) before there is a socket, whoever requests it."""

    async def connect(self) -> None:
        """Refuse the connection."""
        await self.close()
