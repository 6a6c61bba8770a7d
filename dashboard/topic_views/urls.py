"""Views of topics."""

from django.urls import path

from dashboard.topic_views import views

app_name = "topic_views"

urlpatterns = [
    path("views/", views.view_list, name="views"),
    path("views/<slug:name>/", views.view, name="view"),
]
