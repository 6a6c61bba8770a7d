"""The addresses of labels."""

from django.urls import path

from dashboard.labels import views

app_name = "labels"

urlpatterns = [
    path("labels/", views.labels, name="labels"),
    path("labels/labels.csv", views.label_file, name="file"),
    path("labels/chips/", views.choose_chips, name="chips"),
    path("labels/upload/", views.upload, name="upload"),
    path("labels/upload/<uuid:number>/", views.preview, name="preview"),
    path("labels/upload/<uuid:number>/apply/", views.apply, name="apply"),
    path("s/<str:scenario>/labels/<asset:asset>/", views.of_asset, name="asset"),
]
