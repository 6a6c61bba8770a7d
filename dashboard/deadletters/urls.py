"""The pages of dead letters."""

from django.urls import path

from dashboard.deadletters import exporting, many_views, views

app_name = "deadletters"

urlpatterns = [
    path("dead-letters/", views.letters, name="letters"),
    path("dead-letters/export/<str:form>/", exporting.export, name="export"),
    path("dead-letters/many/", many_views.review, name="review"),
    path("dead-letters/many/redrive/", many_views.redrive_many, name="redrive-many"),
    path("dead-letters/many/discard/", many_views.discard_many, name="discard-many"),
    path("dead-letters/many/outcomes/", many_views.outcomes, name="outcomes"),
    path("dead-letters/<int:number>/", views.letter, name="letter"),
    path("dead-letters/<int:number>/redrive/", views.redrive_one, name="redrive"),
    path("dead-letters/<int:number>/discard/", views.discard_one, name="discard"),
    path("dead-letters/<int:number>/find-out/", views.find_out_one, name="find-out"),
]
