"""Addresses of orders and invoices."""

from django.urls import include, path

from dashboard.retail import views

orders_urls = [path("orders/where/", views.where, name="where")]

invoices_urls = [
    path("invoices/", views.invoices, name="invoices"),
    path("invoices/hourly/", views.hourly, name="hourly"),
]

urlpatterns = [
    path("", include((orders_urls, "orders"))),
    path("", include((invoices_urls, "invoices"))),
]
