"""Pages of the audit."""

from django.urls import path

from dashboard.audit import views

app_name = "audit"

urlpatterns = [
    path("audit/", views.entries, name="entries"),
    path("audit/audit.<str:form>", views.entry_file, name="file"),
]
