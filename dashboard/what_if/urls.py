"""What-if's pages."""

from django.urls import path

from dashboard.what_if import views

app_name = "what_if"

urlpatterns = [
    path("what-if/", views.trials, name="trials"),
    path("what-if/run/", views.run, name="run"),
    path("what-if/<uuid:id>/", views.trial, name="trial"),
]
