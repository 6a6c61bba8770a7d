"""The board's pages. The asset comes last, as its name may hold any character."""

from django.urls import path

from dashboard.board.assets import (
    log_records,
    palette,
    past_board_views,
    scenario_tabs,
    views,
    wall,
)
from dashboard.board.assets.events import EventList
from dashboard.board.assets.overrides import OverrideList

app_name = "board"

urlpatterns = [
    path("", views.board, name="board"),
    path("wall/", wall.wall, name="wall"),
    path("board.<str:form>", views.board_file, name="file"),
    *EventList.addresses("events/", "events", "event-file"),
    path("as-of/", past_board_views.as_of, name="as-of"),
    path("as-of/as-of.<str:form>", past_board_views.as_of_file, name="as-of-file"),
    path("tabs/", scenario_tabs.badges, name="tabs"),
    path("palette/", palette.palette, name="palette"),
    *OverrideList.addresses("overrides/", "overrides"),
    path("s/<str:scenario>/", views.board, name="scenario"),
    path("s/<str:scenario>/a/<asset:asset>/", views.asset, name="asset"),
    path(
        "s/<str:scenario>/record/<int:partition>/<int:offset>/",
        log_records.record,
        name="record",
    ),
]
