"""Addresses of notifications: rules, channels, rotas, messages, browsers, and the caught mail."""

from django.urls import include, path

from dashboard.notify.notifications import (
    channel_views,
    mails,
    message_views,
    push_views,
    rota_views,
    rule_views,
)
from dashboard.notify.notifications.channel_views import ChannelPage
from dashboard.notify.notifications.message_views import MessageList
from dashboard.notify.notifications.rota_views import RotaChange, RotaList, RotaPage, ShiftAddition
from dashboard.notify.notifications.rule_views import RuleFormPage

notifications_urls = [
    path("notifications/rules/", rule_views.rules, name="rules"),
    path("notifications/rules/new/", RuleFormPage.as_view(), name="new-rule"),
    path("notifications/rules/<int:number>/", rule_views.rule, name="rule"),
    path("notifications/rules/<int:number>/edit/", RuleFormPage.as_view(), name="edit-rule"),
    path("notifications/rules/<int:number>/act/", rule_views.act_on_rule, name="act-on-rule"),
    path("notifications/channels/", channel_views.channels, name="channels"),
    path("notifications/channels/new/<slug:kind>/", ChannelPage.as_view(), name="new-channel"),
    path("notifications/channels/<int:number>/", ChannelPage.as_view(), name="edit-channel"),
    path(
        "notifications/channels/<int:number>/act/",
        channel_views.act_on_channel,
        name="act-on-channel",
    ),
    path("notifications/rotas/", RotaList.as_view(), name="rotas"),
    path("notifications/rotas/<int:number>/", RotaPage.as_view(), name="rota"),
    path("notifications/rotas/<int:number>/change/", RotaChange.as_view(), name="change-rota"),
    path("notifications/rotas/<int:number>/add/", ShiftAddition.as_view(), name="add-shift"),
    path("notifications/rotas/<int:number>/remove/", rota_views.remove_shift, name="remove-shift"),
    *MessageList.addresses("notifications/messages/", "messages", "file"),
    path("notifications/messages/<uuid:number>/", message_views.message, name="message"),
    path("notifications/reply/<str:token>/", message_views.reply, name="reply"),
    path("account/messages/", message_views.inbox, name="inbox"),
    path("account/messages/read/", message_views.mark_read, name="mark-read"),
    path("notifications/ack/<str:token>/", message_views.acknowledge_group, name="acknowledge"),
]

push_urls = [
    path("push.js", push_views.service_worker, name="worker"),
    path("account/notifications/", push_views.browsers, name="browsers"),
    path("account/notifications/mail/", push_views.change_mail, name="mail"),
    path("account/notifications/remove/", push_views.remove, name="remove"),
    path("account/notifications/test/", push_views.send_test, name="test"),
]

mail_catcher_urls = [
    *mails.MailList.addresses("console/mail/", "mails"),
    path("console/mail/<int:number>/", mails.mail, name="mail"),
    path("console/mail/<int:number>/html/", mails.mail_html, name="html"),
]

urlpatterns = [
    path("", include((notifications_urls, "notifications"))),
    path("", include((push_urls, "push"))),
    path("", include((mail_catcher_urls, "mail_catcher"))),
]
