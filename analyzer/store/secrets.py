"""Ids and tokens. An id is a capability, so it is 128 random bits; of a token only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def new_id() -> str:
    """A new id: 128 random bits, 22 characters that a URL takes as they are."""
    return secrets.token_urlsafe(16)


def is_id(text: str) -> bool:
    """Whether ``text`` could be an id."""
    return _ID.fullmatch(text) is not None


def new_token() -> str:
    """A new delete token: 192 random bits."""
    return secrets.token_urlsafe(24)


def token_hash(token: str) -> bytes:
    """What is kept of a token. It is random, so a plain hash does."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def same_token(token: str, kept: bytes) -> bool:
    """Whether ``kept`` is the hash of ``token``, in a time that tells nothing."""
    return hmac.compare_digest(token_hash(token), kept)
