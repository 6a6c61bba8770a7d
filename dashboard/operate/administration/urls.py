"""URLs of users, the audit and retention."""

from django.urls import include, path

from dashboard.operate.administration import retention, users
from dashboard.operate.administration.audit import AuditList

users_urls = [
    *users.UserList.addresses("users/", "users"),
    path("users/new/", users.new_user, name="new-user"),
    path("users/roles/", users.roles, name="roles"),
    path("users/<int:number>/", users.user, name="user"),
    path("users/<int:number>/role/", users.RoleChange.as_view(), name="change-role"),
    path("users/<int:number>/deactivate/", users.Deactivation.as_view(), name="deactivate"),
    path("users/<int:number>/reactivate/", users.Reactivation.as_view(), name="reactivate"),
    path("users/<int:number>/password/", users.PasswordReset.as_view(), name="reset-password"),
    path("users/<int:number>/factor/", users.FactorRemoval.as_view(), name="remove-factor"),
    path("users/<int:number>/sessions/", users.end_sessions, name="end-sessions"),
    path("users/<int:number>/tokens/", users.revoke_token, name="revoke-token"),
]

audit_urls = AuditList.addresses("audit/", "entries", "file")

retention_urls = [
    path("console/retention/", retention.retention, name="retention"),
    path("console/retention/set/", retention.change, name="change"),
]

urlpatterns = [
    path("", include((users_urls, "users"))),
    path("", include((audit_urls, "audit"))),
    path("", include((retention_urls, "retention"))),
]
