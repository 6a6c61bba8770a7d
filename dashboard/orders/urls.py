"""Where the orders are."""

from django.urls import path

from dashboard.orders import views

app_name = "orders"

urlpatterns = [path("orders/where/", views.where, name="where")]
