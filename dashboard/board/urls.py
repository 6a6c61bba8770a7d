"""The board's pages. The asset comes last, as its name may hold any character."""

from django.urls import path

from dashboard.board import event_views, override_views, record_views, views

app_name = "board"

urlpatterns = [
    path("", views.board, name="board"),
    path("events/", event_views.event_list, name="events"),
    path("events/events.<str:form>", event_views.event_file, name="event-file"),
    path("overrides/", override_views.override_list, name="overrides"),
    path("s/<str:scenario>/", views.board, name="scenario"),
    path("s/<str:scenario>/a/<asset:asset>/", views.asset, name="asset"),
    path(
        "s/<str:scenario>/record/<int:partition>/<int:offset>/",
        record_views.record,
        name="record",
    ),
]
