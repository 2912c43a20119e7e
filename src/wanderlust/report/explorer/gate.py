"""The port: loopback or not, free or taken, and a token for everybody who comes from outside.

From outside a browser comes in through a gate of ours, which asks for the token; the viewer behind it listens on
loopback. The first request brings the token in the address, the later ones in a cookie.
"""

import asyncio
import contextlib
import errno
import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from wanderlust.errors import UserError

LONGEST_HEAD = 16_384
"""Bytes of a request before its body."""
PATIENCE = 10.0
"""Seconds a request may take to arrive."""
REFUSAL = "This explorer needs the address with its token, as printed where it was started.\n"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host name or address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_port(host: str, port: int) -> None:
    """Refuse a host that is not this machine's, and a port that is taken; the message names a free one."""
    if not 1 <= port <= 65535:
        raise UserError(f"--port is {port}; it must be in 1 to 65535")
    problem = _problem(host, port)
    if problem is None:
        return
    if problem.errno == errno.EADDRINUSE:
        free = next((p for p in range(port + 1, min(port + 1000, 65536)) if _problem(host, p) is None), None)
        raise UserError(f"port {port} is taken; {f'--port {free} is free' if free else 'choose another --port'}")
    if problem.errno in (errno.EACCES, errno.EPERM):
        raise UserError(f"port {port} is not yours to open; choose a --port from 1024 on")
    raise UserError(f"cannot listen on {host}: {problem.strerror or problem}; --host is an address of this machine")


def _problem(host: str, port: int) -> OSError | None:
    """What keeps a server from listening there."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
            tried.listen(1)
    except OSError as problem:
        return problem
    return None


class Gate:
    """Lets requests with the token through to a server on loopback."""

    def __init__(self, token: str, behind: int) -> None:
        self._token, self._behind = token, behind
        self._cookie = f"wanderlust-{behind}"

    async def open(self, host: str, port: int) -> asyncio.Server:
        """Listen from now on."""
        return await asyncio.start_server(self._serve, host, port, limit=LONGEST_HEAD)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = self._answer(head)
            if answer:
                writer.write(answer)
                await writer.drain()
                return
            await self._pass_on(head, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        """What to answer to a request; nothing if it may pass."""
        lines = head.decode("latin-1").split("\r\n")
        target = [*lines[0].split(" "), ""][1]
        fields = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines[1:])}
        asked = parse_qs(urlsplit(target).query).get("token", [""])[0]
        if asked and self._right(asked):
            cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Lax; Path=/"
            return _response("303 See Other", f"Location: ./\r\nSet-Cookie: {cookie}\r\n", "")
        jar: SimpleCookie = SimpleCookie()
        with contextlib.suppress(CookieError):
            jar.load(fields.get("cookie", ""))
        if self._cookie in jar and self._right(jar[self._cookie].value):
            return b""
        return _response("403 Forbidden", "Content-Type: text/plain; charset=utf-8\r\n", REFUSAL)

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        inner_writer.write(head)
        copies = [
            asyncio.create_task(_copy(reader, inner_writer)),
            asyncio.create_task(_copy(inner_reader, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            inner_writer.close()


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            to.write(data)
            await to.drain()


def _response(status: str, fields: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
