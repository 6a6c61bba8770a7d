"""Addresses of acknowledgements, notes and labels. The asset comes last, as its name may hold
any character."""

from django.urls import include, path

from dashboard.watch.annotations import label_views
from dashboard.watch.annotations import views as annotation_views

annotations_urls = [
    path("s/<str:scenario>/acknowledge/", annotation_views.acknowledge_many, name="acknowledge"),
    path("s/<str:scenario>/take-back/", annotation_views.take_back_many, name="take-back"),
    path("s/<str:scenario>/notes/", annotation_views.write_note_of_many, name="notes"),
    path("s/<str:scenario>/note/<asset:asset>/", annotation_views.write_note, name="note"),
    path("notes/<int:number>/edit/", annotation_views.edit_note, name="edit-note"),
    path("notes/<int:number>/delete/", annotation_views.delete_note, name="delete-note"),
]

labels_urls = [
    path("labels/", label_views.labels, name="labels"),
    path("labels/labels.csv", label_views.label_file, name="file"),
    path("labels/chips/", label_views.choose_chips, name="chips"),
    path("labels/upload/", label_views.upload, name="upload"),
    path("labels/upload/<uuid:number>/", label_views.table, name="table"),
    path("labels/upload/<uuid:number>/apply/", label_views.apply, name="apply"),
    path("labels/upload/<uuid:number>/stop/", label_views.stop, name="stop"),
    path("s/<str:scenario>/labels/<asset:asset>/", label_views.of_asset, name="asset"),
]

urlpatterns = [
    path("", include((annotations_urls, "annotations"))),
    path("", include((labels_urls, "labels"))),
]
