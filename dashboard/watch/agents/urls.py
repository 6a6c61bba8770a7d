"""URLs of the agent pages. An agent's name is the last part of a URL, as an asset's is."""

from django.urls import path

from dashboard.watch.agents import views

app_name = "agents"

urlpatterns = [
    path("agents/", views.agents, name="agents"),
    path("mute/<slug:scenario>/", views.mute_several, name="mute-several"),
    path("mute/<slug:scenario>/<asset:agent>/", views.mute, name="mute"),
    path("unmute/<slug:scenario>/<asset:agent>/", views.unmute, name="unmute"),
    path("mute-again/<slug:scenario>/<asset:agent>/", views.again, name="again"),
    path("agents/<slug:scenario>/<asset:agent>/", views.agent, name="agent"),
]
