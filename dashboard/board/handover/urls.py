"""URLs of the handover between shifts."""

from django.urls import path

from dashboard.board.handover import views

app_name = "handover"

urlpatterns = [
    path("handover/", views.handover, name="handover"),
    path("handover/text/", views.as_text, name="text"),
    path("handover/shift/<str:step>/", views.shift, name="shift"),
]
