"""URLs of the dead letter pages."""

from django.urls import path

from dashboard.operate.dead_letters import bulk_views, views

app_name = "dead_letters"

urlpatterns = [
    path("dead-letters/", views.letters, name="letters"),
    path("dead-letters/export/<str:form>/", views.export, name="export"),
    path("dead-letters/many/", bulk_views.review, name="review"),
    path("dead-letters/many/redrive/", bulk_views.redrive_many, name="redrive-many"),
    path("dead-letters/many/discard/", bulk_views.discard_many, name="discard-many"),
    path("dead-letters/many/outcomes/", bulk_views.outcomes, name="outcomes"),
    path("dead-letters/<int:number>/", views.letter, name="letter"),
    path("dead-letters/<int:number>/redrive/", views.redrive_one, name="redrive"),
    path("dead-letters/<int:number>/discard/", views.discard_one, name="discard"),
    path("dead-letters/<int:number>/find-out/", views.find_out_one, name="find-out"),
]
