"""The board's pages. The asset comes last, as its name may hold any character."""

from django.urls import path

from dashboard.board import override_views, record_views, views

app_name = "board"

urlpatterns = [
    path("", views.board, name="board"),
    path("overrides/", override_views.override_list, name="overrides"),
    path("s/<str:scenario>/", views.board, name="scenario"),
    path("s/<str:scenario>/a/<asset:asset>/", views.asset, name="asset"),
    path(
        "s/<str:scenario>/record/<int:partition>/<int:offset>/",
        record_views.record,
        name="record",
    ),
]
