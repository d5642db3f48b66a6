"""Who may ask a server, and under which names browsers reach it."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from typing import Final

from etq.errors import EtqError
from etq.listening import host_of, is_address
from etq.serve.settings import Settings
from etq.team.folder import InMemory, TeamFolder
from etq.team.tokens import add_token
from etq.team.users import ANYONE, Role, User, add_user, has_users

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
# All interfaces.
ANY: Final = ("0.0.0.0", "::", "")


@dataclass
class Access:
    """Who may ask: clients that name this server's host, and are users or have the token of its link, if it has one.

    host   address that the server binds to
    link   on hosts other than the loopback, while there are no users: knows the link's token
    token  that of the link
    """

    host: str
    port: int
    settings: Settings = field(default_factory=Settings)
    link: TeamFolder | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    _has_users: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.settings.user_header is not None and self.settings.folder is None:
            raise EtqError("users of a proxy need a folder; give one with --team DIR")
        if self.folder() is None and self.host not in LOOPBACK:
            self.add_link()

    def add_link(self) -> None:
        """Make the token of a link."""
        self.link = InMemory()
        with self.link.writing() as connection:
            add_user(connection, ANYONE, self.anyone.role)
            self.token = add_token(connection, ANYONE)

    @property
    def anyone(self) -> User:
        """Who asks a server without users."""
        return User(ANYONE, Role.LABEL if self.settings.edits else Role.READ)

    def folder(self) -> TeamFolder | None:
        """Return the folder that knows who may ask; None if anyone may. Raises `EtqError`.

        Once a server has seen users, it answers nobody else, whatever becomes of its folder.
        """
        team = self.settings.folder
        if team is None:
            return self.link
        if not self._has_users:
            self._has_users = self.settings.user_header is not None or has_users(team)
        return team if self._has_users else self.link

    @property
    def url(self) -> str:
        """The address to open. The token is in its fragment, which browsers send to nobody."""
        host = socket.gethostname() if self.host in ANY else self.host
        address = f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"
        return address if self.token is None else f"{address}#token={self.token}"

    @property
    def scheme(self) -> str:
        """How browsers reach it, unless by a proxy."""
        return "http" if self.settings.certificate is None else "https"

    def cookie(self, *, is_secure: bool) -> str:
        """Return the name of the cookie of a session. Ports of a host share cookies; with __Host-, no other host can
        set it.
        """
        return f"{'__Host-' if is_secure else ''}etq_{self.port}"

    def is_host(self, header: str) -> bool:
        """Whether a request's header `Host` names this server: a page of another name, which was made to resolve to
        this address, must not read answers.
        """
        name = host_of(header)
        if name is None:
            return False
        if name in LOOPBACK or name in (self.host.lower(), *(each.lower() for each in self.settings.names)):
            return True
        if self.host not in ANY:
            return False
        return name in (socket.gethostname().lower(), socket.getfqdn().lower()) or is_address(name)

    def is_origin(self, origin: str | None, host: str) -> bool:
        """Whether a request's header `Origin` is a page of the host that its header `Host` names. A proxy may have it
        by HTTPS.
        """
        schemes = {self.scheme, "https"}
        return origin is not None and origin.lower() in {f"{scheme}://{host.lower()}" for scheme in schemes}

    def is_proxy(self, address: str) -> bool:
        """Whether a proxy that may name the user has an address."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in ipaddress.ip_network(each, strict=False) for each in self.settings.proxies)
