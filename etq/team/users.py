"""Users and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """What a user may do; each role may do what those before it may."""

    READ = 1
    PUSH = 2
    LABEL = 3
    ADMIN = 4

    @property
    def label(self) -> str:
        """The role as users write it."""
        return self.name.lower()


# Who asks a server without users.
ANYONE: Final = "anyone"
ROLES: Final = {role.label: role for role in Role}


@dataclass(frozen=True)
class User:
    """Who sends a request."""

    name: str
    role: Role
