"""The mail catcher."""

from django.urls import path

from dashboard.mail_catcher import views

app_name = "mail_catcher"

urlpatterns = [
    path("console/mail/", views.mail_list, name="mails"),
    path("console/mail/<int:number>/", views.mail, name="mail"),
    path("console/mail/<int:number>/html/", views.mail_html, name="html"),
]
