"""The console's pages of the job."""

from django.urls import path

from dashboard.console import job_views, partition_views

app_name = "console"

urlpatterns = [
    path("job/", job_views.job, name="job"),
    path("job/pipelines/<slug:name>/ask/", job_views.ask_pipeline, name="ask-pipeline"),
    path("job/<slug:query>/ask/", job_views.ask, name="ask"),
    path("job/<slug:query>/figures.json", job_views.figures, name="figures"),
    path("job/<slug:query>/samples.json", job_views.samples_of, name="samples"),
    path("partitions/", partition_views.partitions, name="partitions"),
]
