"""Notifications: rules, channels, rotas, messages."""

from django.urls import path

from dashboard.notifications import (
    channel_views,
    group_views,
    message_views,
    rota_views,
    rule_views,
)

app_name = "notifications"

urlpatterns = [
    path("notifications/rules/", rule_views.rules, name="rules"),
    path("notifications/rules/new/", rule_views.new_rule, name="new-rule"),
    path("notifications/rules/<int:number>/", rule_views.rule, name="rule"),
    path("notifications/rules/<int:number>/edit/", rule_views.edit_rule, name="edit-rule"),
    path("notifications/rules/<int:number>/act/", rule_views.act_on_rule, name="act-on-rule"),
    path("notifications/channels/", channel_views.channels, name="channels"),
    path("notifications/channels/new/<slug:kind>/", channel_views.new_channel, name="new-channel"),
    path("notifications/channels/<int:number>/", channel_views.edit_channel, name="edit-channel"),
    path(
        "notifications/channels/<int:number>/act/",
        channel_views.act_on_channel,
        name="act-on-channel",
    ),
    path("notifications/rotas/", rota_views.rotas, name="rotas"),
    path("notifications/rotas/<int:number>/", rota_views.rota, name="rota"),
    path("notifications/rotas/<int:number>/change/", rota_views.change_rota, name="change-rota"),
    path("notifications/rotas/<int:number>/add/", rota_views.add_shift, name="add-shift"),
    path("notifications/rotas/<int:number>/remove/", rota_views.remove_shift, name="remove-shift"),
    path("notifications/messages/", message_views.message_list, name="messages"),
    path("notifications/messages/messages.<str:form>", message_views.message_file, name="file"),
    path("notifications/messages/<uuid:number>/", message_views.message, name="message"),
    path("notifications/ack/<str:token>/", group_views.acknowledge_group, name="acknowledge"),
]
