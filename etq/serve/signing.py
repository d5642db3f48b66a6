"""Signing in and out, and who is signed in."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from etq.errors import EtqError, printable
from etq.serve.access import Access
from etq.serve.endpoints import address_of, body_of, error, needs, note, user_of
from etq.serve.guard import LOGIN, session_of
from etq.serve.payloads import of_data
from etq.serve.refusals import Refusals, RefusedError, unreadable
from etq.serve.site import Part, Site
from etq.serve.spool import whole
from etq.team.tokens import LONGEST, SHOWN, sign_in, sign_out
from etq.team.users import ANYONE, Role, User

# Bytes of what is sent to sign in.
MOST_SENT: Final = 4000


def signing(site: Site, access: Access, refusals: Refusals) -> Part:
    """The part of a site by which pages sign in."""
    doors = _Doors(site, access, refusals)
    return Part(
        [
            Route(LOGIN, doors.login, methods=["POST"]),
            Route("/logout", needs(Role.READ, doors.logout), methods=["POST"]),
            Route("/data/me", needs(Role.READ, doors.me)),
        ]
    )


class _Doors:
    def __init__(self, site: Site, access: Access, refusals: Refusals) -> None:
        self._site = site
        self._access = access
        self._refusals = refusals

    async def login(self, request: Request) -> Response:
        """Begin a session with a token: its halves are a cookie and a key.

        A session that the browser has already goes on until it is too old: who planted it learns nothing of the new
        one.
        """
        try:
            return await self._login(request)
        except EtqError as failure:
            refused = unreadable(failure)
        except RefusedError as failure:
            refused = failure
        headers = {name.decode(): value.decode() for name, value in refused.headers}
        return error(refused.text, refused.status, **headers)

    async def _login(self, request: Request) -> Response:
        folder = self._access.folder()
        if folder is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "this server has no users; leave the token out")
        token = await _token_of(request)
        signed_in = await asyncio.to_thread(sign_in, folder, token)
        if signed_in is None:
            await self._refusals.note_wrong(folder, address_of(request))
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "the token is wrong, revoked or expired; ask for another one")
        await note(self._site, request, "signed in", {"token": token[:SHOWN]}, user=signed_in.user)
        answer = of_data(self._me(signed_in.user) | {"key": signed_in.key})
        response = Response(whole(answer.body), 200, {"cache-control": "no-store"}, answer.type)
        self._set_cookie(request, response, signed_in.session)
        return response

    async def logout(self, request: Request) -> Response:
        """End the session that the request has."""
        folder, session = self._access.folder(), session_of(request.headers, self._access)
        if folder is not None and session is not None:
            await note(self._site, request, "signed out")
            await asyncio.to_thread(sign_out, folder, *session)
        response = Response(b"{}", 200, {"cache-control": "no-store"}, "application/json")
        self._set_cookie(request, response, "")
        return response

    async def me(self, request: Request) -> Response:
        """What pages show about the warehouse, and who asks."""
        is_session = session_of(request.headers, self._access) is not None
        answer = of_data(self._me(user_of(request)) | {"signs_out": is_session})
        return Response(whole(answer.body), 200, {"cache-control": "no-store"}, answer.type)

    def _me(self, user: User) -> dict[str, object]:
        can_edit = user.role >= Role.LABEL
        name = None if user.name == ANYONE else user.name
        return {"source": printable(self._site.path), "user": name, "role": user.role.label, "edits": can_edit}

    def _set_cookie(self, request: Request, response: Response, session: str) -> None:
        # Behind a proxy with TLS, only the page knows that it has it.
        is_secure = request.headers.get("origin", "").lower().startswith("https:")
        name, age = self._access.cookie(is_secure=is_secure), int(LONGEST) if session else 0
        response.set_cookie(name, session, max_age=age, path="/", secure=is_secure, httponly=True, samesite="strict")


async def _token_of(request: Request) -> str:
    if (body := await body_of(request, MOST_SENT)) is None:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "not a token; it is shorter")
    try:
        return msgspec.json.decode(body, type=dict[str, str])["token"].strip()
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "not a token; reload the page") from None
