"""Which settings are secret, and how they are kept out of everything that is printed or logged.

In here: the rule by which a name is secret, and the mask. Not in here: settings (`runtime/settings.py`) and
logging (`observe/log.py`), which both use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "********"

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|credential|jaas|user\.?info"
    r"|private\.?key|\bkey\.(pem|string)\b|api\.?key|access\.?key"
    r"|token(?!\.endpoint)|oauthbearer\.config|\bauth(orization)?\b",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(r"\.(location|file|url|type|mechanisms?|id)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """True for the name of a setting whose value must never be shown (passwords, tokens, key material)."""
    dotted = name.replace("_", ".").replace("-", ".")
    return _SECRET.search(dotted) is not None and _NOT_SECRET.search(dotted) is None


def masked(name: str, value: object) -> object:
    """The value as it may be shown: a mask for a secret one, mappings masked key by key."""
    if isinstance(value, Mapping):
        return {key: masked(str(key), item) for key, item in value.items()}
    return MASK if value and is_secret(name) else value


def secret_values(settings: Mapping[str, object]) -> list[str]:
    """All secret values in there, longest first so that one that contains another is replaced whole."""
    found = {str(value) for name, value in settings.items() if value and is_secret(name)}
    return sorted((value for value in found if len(value) > 3), key=len, reverse=True)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with each of the secret values replaced by the mask."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return text
