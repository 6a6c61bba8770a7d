"""URLs of the console's scenario pages."""

from django.urls import path

from dashboard.operate.scenarios import views

app_name = "rules"

urlpatterns = [
    path("scenarios/", views.listing, name="scenarios"),
    path("scenarios/<slug:name>/", views.scenario, name="scenario"),
    path("scenarios/<slug:name>/change/", views.change, name="change"),
    path("scenarios/<slug:name>/review/", views.review, name="review"),
    path("scenarios/<slug:name>/confirm/", views.confirm, name="confirm"),
]
