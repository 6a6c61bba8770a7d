"""Maintenance windows."""

from django.urls import path

from dashboard.maintenance import views

app_name = "maintenance"

urlpatterns = [
    path("maintenance/", views.window_list, name="windows"),
    path("maintenance/new/", views.new_window, name="new"),
    path("maintenance/<int:number>/", views.window, name="window"),
    path("maintenance/<int:number>/edit/", views.edit_window, name="edit"),
    path("maintenance/<int:number>/end/", views.end, name="end"),
    path("maintenance/<int:number>/cancel/", views.cancel, name="cancel"),
]
