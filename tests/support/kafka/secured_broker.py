"""A broker with logins and rights: nobody may do what was not granted."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka as ck
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ops.broker import prepare
from support.run.stack import EmbeddedBroker

ADMIN, PASSWORD = "admin", "the-admins-own"
# Java's properties: the last line of a name counts.
PROPERTIES = """\
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.broker.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{admin}" password="{password}" {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
"""


class SecuredBroker(EmbeddedBroker):
    """The embedded broker with SASL PLAIN and the StandardAuthorizer. users: passwords by name."""

    def __init__(self, data_dir: Path, jars_dir: Path, **users: str) -> None:
        super().__init__(data_dir, jars_dir)
        self._users = {ADMIN: PASSWORD, **users}

    def command(self) -> list[str]:
        """Write the broker's files, and return the command that runs it."""
        command = prepare(self.data_dir, self.jars_dir, self.port)
        users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        lines = PROPERTIES.format(admin=ADMIN, password=PASSWORD, users=users)
        with (self.data_dir / "broker" / "server.properties").open("a") as properties:
            properties.write(lines)
        return command

    def options(self, user: str = ADMIN, password: str | None = None) -> dict[str, str]:
        """Return the options of a client; password: another than the user's own."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._users[user] if password is None else password,
        }

    def answers(self) -> bool:
        """Return whether the admin's metadata request is answered."""
        try:
            AdminClient({**self.options(), "log_level": 0}).list_topics(timeout=1)
        except ck.KafkaException:
            return False
        return True

    def grant(self, user: str, *operations: AclOperation, topic: str = "", group: str = "") -> None:
        """Give a user rights on a topic or a group."""
        kind = ResourceType.TOPIC if topic else ResourceType.GROUP
        bindings = [self._binding(user, kind, topic or group, each) for each in operations]
        admin = AdminClient({**self.options()})
        for future in admin.create_acls(bindings).values():
            future.result()

    def revoke(self, user: str) -> None:
        """Take all rights from a user."""
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None,  # type: ignore[arg-type]
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        admin = AdminClient({**self.options()})
        for future in admin.delete_acls([everything]).values():
            future.result()

    def _binding(self, user: str, kind: ResourceType, name: str, what: AclOperation) -> AclBinding:
        return AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", what,
            AclPermissionType.ALLOW,
        )  # fmt: skip
