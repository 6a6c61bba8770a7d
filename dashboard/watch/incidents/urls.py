"""URLs of incidents and maintenance windows."""

from django.urls import include, path

from dashboard.watch.incidents import views
from dashboard.watch.incidents.queries import CaseList, IncidentList
from dashboard.watch.incidents.views import WindowFormPage
from dashboard.watch.incidents.windows import WindowList

incidents_urls = [
    *CaseList.addresses("incidents/", "incidents", "file"),
    *IncidentList.addresses("incidents/by-asset/", "by-asset", "by-asset-file"),
    *views.GroupList.addresses("incidents/groups/", "groups", "group-file"),
    path("incidents/INC-<int:number>/", views.CasePage.as_view(), name="incident"),
    path("incidents/INC-<int:number>/report.md", views.incident_report, name="report"),
    *(
        path(f"incidents/INC-<int:number>/{name}/", act.as_view(), name=name)
        for name, act in views.CASE_ACTS.items()
    ),
    path("s/<str:scenario>/incident/<asset:asset>/", views.incident_of_asset, name="of-asset"),
    path("incidents/<int:number>/by/<str:key>/", views.group, name="group"),
    path(
        "incidents/<int:number>/by/<str:key>/report.md",
        views.group_report,
        name="group-report",
    ),
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
