"""Where the orders are; Invoices."""

from django.urls import include, path

from dashboard.retail import invoices, orders

orders = [path("orders/where/", orders.where, name="where")]

invoices = [
    path("invoices/", invoices.invoices, name="invoices"),
    path("invoices/hourly/", invoices.hourly, name="hourly"),
]

urlpatterns = [
    path("", include((orders, "orders"))),
    path("", include((invoices, "invoices"))),
]
