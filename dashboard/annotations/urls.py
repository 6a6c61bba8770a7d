"""Acknowledgements and notes. The asset comes last, whatever its name holds."""

from django.urls import path

from dashboard.annotations import views

app_name = "annotations"

urlpatterns = [
    path("s/<str:scenario>/acknowledge/", views.acknowledge_many, name="acknowledge"),
    path("s/<str:scenario>/take-back/", views.take_back_many, name="take-back"),
    path("s/<str:scenario>/note/<asset:asset>/", views.write_note, name="note"),
    path("notes/<int:number>/edit/", views.edit_note, name="edit-note"),
    path("notes/<int:number>/delete/", views.delete_note, name="delete-note"),
]
