"""The pages of stale assets and of bulk."""

from django.urls import path

from dashboard.bulk import run_views, stale_views, views

app_name = "bulk"

urlpatterns = [
    path("stale/", stale_views.stale_list, name="stale"),
    path("bulk/", views.bulk, name="bulk"),
    path("bulk/review/", views.review, name="review"),
    path("bulk/<uuid:id>/", run_views.run, name="run"),
    path("bulk/<uuid:id>/start/", run_views.start, name="start"),
    path("bulk/<uuid:id>/ask/", run_views.ask, name="ask"),
    path("bulk/<uuid:id>/again/", views.review_again, name="again"),
    path("bulk/<uuid:id>/outcomes.csv", run_views.outcomes, name="outcomes"),
]
