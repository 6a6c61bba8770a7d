"""The addresses of labels."""

from django.urls import path

from dashboard.labels import upload_views, views

app_name = "labels"

urlpatterns = [
    path("labels/", views.labels, name="labels"),
    path("labels/labels.csv", views.label_file, name="file"),
    path("labels/chips/", views.choose_chips, name="chips"),
    path("labels/upload/", upload_views.upload, name="upload"),
    path("labels/upload/<uuid:number>/", upload_views.table, name="table"),
    path("labels/upload/<uuid:number>/apply/", upload_views.apply, name="apply"),
    path("labels/upload/<uuid:number>/stop/", upload_views.stop, name="stop"),
    path("s/<str:scenario>/labels/<asset:asset>/", views.of_asset, name="asset"),
]
