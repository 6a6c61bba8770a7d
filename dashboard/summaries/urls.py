"""Summaries."""

from django.urls import path

from dashboard.summaries import alarm_views, settings_views, span_views, views

app_name = "summaries"

urlpatterns = [
    path("summary/", views.summary_page, name="summary"),
    path("summary/settings/", settings_views.settings_page, name="settings"),
    path("summary/history/", span_views.span_list, name="spans"),
    path("summary/alarms/", alarm_views.alarm_list, name="alarms"),
    path("summary/alarms/alarms.<str:form>", alarm_views.alarm_file, name="alarm-file"),
    path("summary/<str:table>.<str:form>", views.summary_file, name="file"),
]
