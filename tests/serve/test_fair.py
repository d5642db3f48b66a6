"""Clients share the server: none keeps others out by slow questions, nor by connections that need no token."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

import pytest

import etq
from etq.serve.turns import BusyError, Turns, client_of
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

SLOW = "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range * b.range = {}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("fair") / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
    with serving(path, has_link=True) as started:
        yield started


def get(server: Server, client: str, path: str) -> tuple[int, bytes]:
    """What the server answers to a client with an address of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120, source_address=(client, 0))
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {server.token}"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def sent(server: Server, client: str, text: str) -> socket.socket:
    """A connection on which a client has sent a text."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=120, source_address=(client, 0))
    connection.sendall(text.encode())
    return connection


def is_open(connection: socket.socket) -> bool:
    """Whether the server has neither answered nor ended a connection."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def test_slow_questions_of_one_client_leave_a_process_to_others(server: Server) -> None:
    with ExitStack() as opened:
        slow = []
        for number in range(6):
            query = urlencode({"query": SLOW.format(number + 7)})
            head = f"GET /data/sql?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
            slow.append(opened.enter_context(sent(server, "127.0.0.2", head)))
        # A question that comes after these is the last one of this client.
        assert get(server, "127.0.0.2", "/data/state")[0] == 200
        status, body = get(server, "127.0.0.3", "/data/sql?query=SELECT+42+AS+answer")
        assert status == 200 and b"42" in body
        assert all(map(is_open, slow)), "the others were answered first"


@pytest.mark.parametrize("clients", [["127.0.0.2"], [f"127.0.1.{number}" for number in range(1, 9)], ["127.0.0.1"]])
@pytest.mark.parametrize("text", ["", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_half_of_requests_keep_out_nobody(server: Server, clients: list[str], text: str) -> None:
    with ExitStack() as opened:
        for number in range(400):
            opened.enter_context(sent(server, clients[number % len(clients)], text))
        answers = Counter(get(server, "127.0.0.1", "/data/captures")[0] for _ in range(20))
        assert answers == {200: 20}


def test_a_client_with_a_token_keeps_out_nobody(server: Server) -> None:
    """Its connections are limited, those that wait for a request end first."""
    head = f"GET /data/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    with ExitStack() as opened:
        for number in range(300):
            each = opened.enter_context(sent(server, f"127.0.0.{2 + number % 4}", head))
            assert each.recv(12) == b"HTTP/1.1 200"
        assert Counter(get(server, "127.0.0.9", "/data/captures")[0] for _ in range(5)) == {200: 5}


def test_refused_requests_end_their_connection(server: Server) -> None:
    for head, status in (("Host: localhost", "401"), ("Host: evil.example", "421")):
        with sent(server, "127.0.0.2", f"GET /data/captures HTTP/1.1\r\n{head}\r\n\r\n") as connection:
            answer = b""
            while part := connection.recv(65536):
                answer += part
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and b"connection: close" in answer


def order_of(asked: list[str], slots: int = 1, most: int = 100) -> list[str]:
    """The order in which clients get their turns that ask together, a turn after the other."""

    async def work() -> list[str]:
        turns, order = Turns(slots, most), []

        async def ask(client: str) -> None:
            async with turns.of(client):
                order.append(client)
                await asyncio.sleep(0)

        await asyncio.gather(*map(ask, asked))
        return order

    return asyncio.run(work())


def test_clients_get_turns_one_after_the_other() -> None:
    assert order_of(["a"] * 4 + ["b"] * 2 + ["c"]) == ["a", "b", "c", "a", "b", "a", "a"]
    assert order_of(["a", "a", "b"]) == ["a", "b", "a"]


def test_one_client_leaves_a_slot() -> None:
    async def work() -> None:
        turns = Turns(3, 100)
        holding = [asyncio.create_task(held(turns, "a")) for _ in range(4)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5), turns.of("b"):
            pass
        for each in holding:
            each.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
        async with asyncio.timeout(5), turns.of("a"), turns.of("a"), turns.of("b"):
            pass

    asyncio.run(work())


async def held(turns: Turns, client: str) -> None:
    async with turns.of(client):
        await asyncio.sleep(1000)


def test_one_client_does_not_fill_the_places_of_those_who_wait() -> None:
    async def work() -> None:
        turns = Turns(1, 8)
        waiting = [asyncio.create_task(held(turns, "a")) for _ in range(9)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="8 questions wait already; ask again"):
            async with turns.of("a"):
                pass
        waiting += [asyncio.create_task(held(turns, "b")) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="4 questions wait already"):
            async with turns.of("b"):
                pass
        for each in waiting:
            assert not each.done()
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(work())


def test_who_a_client_is() -> None:
    """A user has all addresses of a network of IPv6; those of IPv4 are of one each."""
    assert client_of("192.0.2.7") == client_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") != client_of("2001:db8:0:1::1")
    assert client_of(None) == client_of("unix") == ""
