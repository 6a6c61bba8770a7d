"""Addresses of the job, partitions and topics."""

from django.urls import include, path

from dashboard.operate.console import job, views

console_urls = [
    path("job/", job.job, name="job"),
    path("job/pipelines/<slug:name>/ask/", job.ask_pipeline, name="ask-pipeline"),
    path("job/<slug:query>/ask/", job.ask, name="ask"),
    path("job/<slug:query>/figures.json", job.figures, name="figures"),
    path("job/<slug:query>/samples.json", job.samples_of, name="samples"),
    path("partitions/", views.partitions, name="partitions"),
]

topic_views_urls = [
    *views.ViewList.addresses("views/", "views"),
    path("views/<slug:name>/", views.view, name="view"),
]

urlpatterns = [
    path("", include((console_urls, "console"))),
    path("", include((topic_views_urls, "topic_views"))),
]
