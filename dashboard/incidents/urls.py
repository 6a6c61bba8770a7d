"""Incidents."""

from django.urls import path

from dashboard.incidents import group_views, views

app_name = "incidents"

urlpatterns = [
    path("incidents/", views.incident_list, name="incidents"),
    path("incidents/incidents.<str:form>", views.incident_file, name="file"),
    path("incidents/<int:number>/", views.incident, name="incident"),
    path("incidents/groups/", group_views.group_list, name="groups"),
    path("incidents/groups/groups.<str:form>", group_views.group_file, name="group-file"),
    path("incidents/<int:number>/by/<str:key>/", group_views.group, name="group"),
    path(
        "incidents/<int:number>/by/<str:key>/report.md",
        group_views.group_report,
        name="group-report",
    ),
    path("incidents/<int:number>/report.md", views.incident_report, name="report"),
]
