"""Endpoints, and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from etq.serve.noting import NotNotedError, noted
from etq.serve.payloads import Payload, of_error
from etq.serve.spool import whole
from etq.team.users import ANYONE, Role, User

if TYPE_CHECKING:
    from etq.serve.site import Site

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def user_of(request: Request) -> User:
    """Return who sends a request, whom the guard has found."""
    user: User = request.scope["state"]["user"]
    return user


def address_of(request: Request) -> str:
    """Return the address from which a request comes, before proxies."""
    return request.client.host if request.client is not None else ""


async def body_of(request: Request, most: int) -> bytes | None:
    """Return the body of a request; None if it has more bytes than `most`."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def needs(role: Role, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint for those who have at least a role."""

    async def checked(request: Request) -> Response:
        user = user_of(request)
        if user.role >= role:
            try:
                return await endpoint(request)
            except NotNotedError as failure:
                return error(str(failure), 503, retry_after="2")
        if user.name == ANYONE and user.role >= Role.LABEL:
            return error(f"this takes a user with the role {role.label}: etq users add NAME --role {role.label}", 403)
        if user.name == ANYONE:
            return error("this server only reads; start it with --edit, or add users: etq users add NAME", 403)
        return error(f"{user.name} has the role {user.role.label}; this takes the role {role.label}", 403)

    checked.role = role  # type: ignore[attr-defined]
    return checked


async def note(
    site: Site, request: Request, action: str, details: dict[str, Any] | None = None, *, user: User | None = None
) -> None:
    """Note in the audit log what is done by who asks, or by a user; without a folder, nothing is noted. Arguments are
    those of `audit.note`. Raises `NotNotedError`, for which `needs` answers.
    """
    folder = site.settings.folder
    if folder is not None and folder.exists:
        name = (user_of(request) if user is None else user).name
        await noted(folder, name, address_of(request), action, details or {})


def error(message: str, status: int, **headers: str) -> Response:
    """Return an error as JSON; underscores in names of headers are dashes."""
    return answered(of_error(message, status), **headers)


def answered(answer: Payload, **headers: str) -> Response:
    """Return an answer that nobody keeps; underscores in names of headers are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(whole(answer.body), answer.status, {"cache-control": "no-store", **named}, answer.type)
