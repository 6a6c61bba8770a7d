"""The secrets of channels, sealed in the database."""

from __future__ import annotations

from dashboard.accounts.encryption import NoKey, Resealed, seal, unseal
from dashboard.notifications.models import Channel


def reseal_channels() -> Resealed:
    """Seal the secrets of all channels with the first key. Returns how many were, and the names of
    the channels in use whose secret no key opens."""
    sealed, unread = 0, []
    for channel in Channel.objects.exclude(secret=""):
        try:
            channel.secret = seal(unseal(channel.secret))
        except NoKey:
            if channel.retired_at is None:
                unread.append(f"the channel {channel.name}")
            continue
        channel.save(update_fields=["secret"])
        sealed += 1
    return sealed, unread
