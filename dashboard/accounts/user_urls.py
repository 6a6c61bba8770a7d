"""Pages of users, for admins."""

from django.urls import path

from dashboard.accounts import user_actions, user_views

app_name = "users"

urlpatterns = [
    path("users/", user_views.users, name="users"),
    path("users/new/", user_views.new_user, name="new-user"),
    path("users/roles/", user_views.roles, name="roles"),
    path("users/<int:number>/", user_views.user, name="user"),
    path("users/<int:number>/role/", user_actions.change_role, name="change-role"),
    path("users/<int:number>/deactivate/", user_actions.deactivate, name="deactivate"),
    path("users/<int:number>/reactivate/", user_actions.reactivate, name="reactivate"),
    path("users/<int:number>/password/", user_actions.reset_password, name="reset-password"),
    path("users/<int:number>/factor/", user_actions.remove_factor, name="remove-factor"),
    path("users/<int:number>/sessions/", user_actions.end_sessions, name="end-sessions"),
    path("users/<int:number>/tokens/", user_actions.revoke_token, name="revoke-token"),
]
