"""The addresses of actions on a batch query."""

from django.urls import path

from dashboard.batch_queries import views

app_name = "batch_queries"

urlpatterns = [path("errands/<uuid:id>/cancel/", views.cancel, name="cancel")]
