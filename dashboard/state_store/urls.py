"""The state store's pages."""

from django.urls import path

from dashboard.state_store import views

app_name = "state_store"

urlpatterns = [
    path("state-store/", views.readings, name="readings"),
    path("state-store/<uuid:id>/", views.reading, name="reading"),
    path("state-store/<uuid:id>/rows.ndjson", views.export, name="export"),
]
