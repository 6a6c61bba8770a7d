"""URLs of incidents and maintenance windows."""

from django.urls import include, path

from dashboard.watch.incidents import views
from dashboard.watch.incidents.queries import IncidentList
from dashboard.watch.incidents.views import WindowFormPage
from dashboard.watch.incidents.windows import WindowList

incidents_urls = [
    *IncidentList.addresses("incidents/", "incidents", "file"),
    path("incidents/<int:number>/", views.incident, name="incident"),
    *views.GroupList.addresses("incidents/groups/", "groups", "group-file"),
    path("incidents/<int:number>/by/<str:key>/", views.group, name="group"),
    path(
        "incidents/<int:number>/by/<str:key>/report.md",
        views.group_report,
        name="group-report",
    ),
    path("incidents/<int:number>/report.md", views.incident_report, name="report"),
]

maintenance_urls = [
    *WindowList.addresses("maintenance/", "windows"),
    path("maintenance/new/", WindowFormPage.as_view(), name="new"),
    path("maintenance/<int:number>/", views.window, name="window"),
    path("maintenance/<int:number>/edit/", WindowFormPage.as_view(), name="edit"),
    path("maintenance/<int:number>/end/", views.end, name="end"),
    path("maintenance/<int:number>/cancel/", views.cancel, name="cancel"),
]

urlpatterns = [
    path("", include((incidents_urls, "incidents"))),
    path("", include((maintenance_urls, "maintenance"))),
]
