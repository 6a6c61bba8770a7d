"""Addresses of orders and invoices."""

from django.urls import include, path

from dashboard.retail import invoices, orders

orders_urls = [path("orders/where/", orders.where, name="where")]

invoices_urls = [
    path("invoices/", invoices.invoices, name="invoices"),
    path("invoices/hourly/", invoices.hourly, name="hourly"),
]

urlpatterns = [
    path("", include((orders_urls, "orders"))),
    path("", include((invoices_urls, "invoices"))),
]
