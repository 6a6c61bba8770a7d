"""What can be done to an errand."""

from django.urls import path

from dashboard.batch_queries import views

app_name = "batch_queries"

urlpatterns = [path("errands/<uuid:ask>/cancel/", views.cancel, name="cancel")]
