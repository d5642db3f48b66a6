"""Endpoints, and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from etq.serve.payloads import of_error
from etq.team.users import Role, User

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def user_of(request: Request) -> User:
    """Return who sends a request, whom the guard has found."""
    user: User = request.scope["state"]["user"]
    return user


def needs(role: Role, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint for those who have at least a role."""

    async def checked(request: Request) -> Response:
        user = user_of(request)
        if user.role < role:
            return error(f"{user.name} has the role {user.role.label}; this takes the role {role.label}", 403)
        return await endpoint(request)

    return checked


def error(message: str, status: int, **headers: str) -> Response:
    """Return an error as JSON; underscores in names of headers are dashes."""
    answer = of_error(message, status)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(answer.body, status, {"cache-control": "no-store", **named}, answer.type)
