"""The pages of stale assets and of bulk."""

from django.urls import path

from dashboard.watch.bulk import views

app_name = "bulk"

urlpatterns = [
    path("stale/", views.stale_list, name="stale"),
    path("bulk/", views.bulk, name="bulk"),
    path("bulk/review/", views.review, name="review"),
    path("bulk/names/", views.names, name="names"),
    path("bulk/<uuid:id>/", views.run, name="run"),
    path("bulk/<uuid:id>/start/", views.start, name="start"),
    path("bulk/<uuid:id>/ask/", views.ask, name="ask"),
    path("bulk/<uuid:id>/again/", views.review_again, name="again"),
    path("bulk/<uuid:id>/outcomes.csv", views.outcomes, name="outcomes"),
]
