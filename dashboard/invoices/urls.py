"""Invoices."""

from django.urls import path

from dashboard.invoices import views

app_name = "invoices"

urlpatterns = [
    path("invoices/", views.invoices, name="invoices"),
    path("invoices/hourly/", views.hourly, name="hourly"),
]
