"""Addresses of summaries and of users' own digests."""

from django.urls import include, path

from dashboard.notify.summaries import digest_views
from dashboard.notify.summaries import views as summary_views
from dashboard.notify.summaries.lists import AlarmList, SpanList
from dashboard.notify.summaries.status_pages import StatusPageEditor, StatusPageList, status_page

summaries_urls = [
    path("summary/", summary_views.summary_page, name="summary"),
    path("summary/settings/", summary_views.settings_page, name="settings"),
    *SpanList.addresses("summary/history/", "spans", "span-file"),
    *AlarmList.addresses("summary/alarms/", "alarms", "alarm-file"),
    path("summary/<str:table>.<str:form>", summary_views.summary_file, name="file"),
]

digests_urls = [
    path("account/digests/", digest_views.own, name="own"),
    path("account/digests/<slug:scenario>/", digest_views.change, name="change"),
    path("digests/unsubscribe/<str:token>/", digest_views.unsubscribe, name="unsubscribe"),
]

status_urls = [
    path("status-pages/", StatusPageList.as_view(), name="pages"),
    path("status-pages/new/", StatusPageEditor.as_view(), name="new"),
    path("status-pages/<int:number>/", StatusPageEditor.as_view(), name="edit"),
    path("status/<slug:slug>/", status_page, name="page"),
]

urlpatterns = [
    path("", include((status_urls, "status"))),
    path("", include((summaries_urls, "summaries"))),
    path("", include((digests_urls, "digests"))),
]
