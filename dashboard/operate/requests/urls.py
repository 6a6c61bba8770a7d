"""URLs for requests to the job: what if, the state store, replays, and cancelling."""

from django.urls import include, path

from dashboard.operate.requests import batch_queries, replay_views, state_store_views
from dashboard.operate.requests.state_store_views import ReadingDetail, ReadingList
from dashboard.operate.requests.what_if_views import TrialDetail, TrialList, TrialRequest

batch_queries_urls = [path("batch-queries/<uuid:id>/cancel/", batch_queries.cancel, name="cancel")]

what_if_urls = [
    path("what-if/", TrialList.as_view(), name="trials"),
    path("what-if/run/", TrialRequest.as_view(), name="run"),
    path("what-if/<uuid:number>/", TrialDetail.as_view(), name="trial"),
]

state_store_urls = [
    path("state-store/", ReadingList.as_view(), name="readings"),
    path("state-store/<uuid:number>/", ReadingDetail.as_view(), name="reading"),
    path("state-store/<uuid:id>/rows.ndjson", state_store_views.export, name="export"),
]

replays_urls = [
    path("replay/", replay_views.replay, name="replay"),
    path("replay/start/", replay_views.start, name="start"),
]

urlpatterns = [
    path("", include((batch_queries_urls, "batch_queries"))),
    path("", include((what_if_urls, "what_if"))),
    path("", include((state_store_urls, "state_store"))),
    path("", include((replays_urls, "replays"))),
]
