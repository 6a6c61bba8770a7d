"""A user's browsers, and the script that receives their notifications."""

from django.urls import path

from dashboard.push import views

app_name = "push"

urlpatterns = [
    path("push.js", views.service_worker, name="worker"),
    path("account/notifications/", views.browsers, name="browsers"),
    path("account/notifications/mail/", views.change_mail, name="mail"),
    path("account/notifications/remove/", views.remove, name="remove"),
    path("account/notifications/test/", views.send_test, name="test"),
]
