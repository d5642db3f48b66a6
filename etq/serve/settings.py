"""Settings of a server, as `etq serve` has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time

from etq.team.folder import TeamFolder
from etq.team.users import Role


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    folder                 the team's folder; None without one: whoever may ask may only read, or as `edits` says
    names                  other names of the server, as a proxy or a DNS has them
    edits                  without users: whether pages may change overviews
    certificate, key       files in PEM of a server that speaks TLS itself
    user_header            the header in which a proxy names the user
    proxies                addresses or networks of the proxies that may send it, and tell whose requests they hand on
    default_role           the role of users whom only the proxy knows; None: they are refused
    requests_per_minute    limit of one user's requests
    file_megabytes         limit of one file that is pushed
    day_gigabytes          limit of what one user pushes on a day
    waiting_gigabytes      limit of all files that wait to be stored
    webhook                address that is told of changes
    webhook_secret         key of the signature of what is told
    prune                  rules of what is removed each day, as `etq prune` takes them
    prune_at               when, in the server's time
    logs                   whether requests are logged, as they are anyway with a folder
    logs_json              whether they are, as lines of JSON
    audit_days             how long notes of the audit log are kept
    audit_megabytes        how much of them is, the latest ones
    public_url             address at which people reach the server, for links in what is told
    """

    folder: TeamFolder | None = None
    names: tuple[str, ...] = ()
    edits: bool = False
    certificate: str | None = None
    key: str | None = None
    user_header: str | None = None
    proxies: tuple[str, ...] = ()
    default_role: Role | None = None
    requests_per_minute: int = 1200
    file_megabytes: int = 2048
    day_gigabytes: float = 20
    waiting_gigabytes: float = 50
    webhook: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    prune: tuple[str, ...] = ()
    prune_at: time = time(3, 0)
    logs: bool = False
    public_url: str | None = None
    logs_json: bool = False
    audit_days: int = 90
    audit_megabytes: int = 100
