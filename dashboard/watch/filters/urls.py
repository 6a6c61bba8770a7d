"""URLs of filters."""

from django.urls import path

from dashboard.watch.filters import views

app_name = "filters"

urlpatterns = [
    path("filters/", views.kept, name="kept"),
    path("filters/complete/", views.complete, name="complete"),
    path("filters/save/", views.save, name="save"),
    path("filters/first/", views.first, name="first"),
    path("filters/<int:number>/tab/", views.tab, name="tab"),
    path("filters/<int:number>/", views.use, name="use"),
    path("filters/<int:number>/change/", views.change, name="change"),
]
