"""The console's pages of the job."""

from django.urls import path

from dashboard.job import partition_views

app_name = "job"

urlpatterns = [
    path("partitions/", partition_views.partitions, name="partitions"),
]
