"""The board's pages. The asset comes last, as its name may hold any character."""

from django.urls import path

from dashboard.board import views

app_name = "board"

urlpatterns = [
    path("", views.board, name="board"),
    path("s/<str:scenario>/", views.board, name="scenario"),
    path("s/<str:scenario>/a/<asset:asset>/", views.asset, name="asset"),
]
