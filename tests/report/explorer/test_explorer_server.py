"""The page without a browser: who may see it, at which port, what is refused, and how it ends."""

import asyncio
import contextlib
import http.client
import os
import signal
import socket
import threading

import numpy as np
import pytest

from trained import start_python, trained
from wanderlust.errors import UserError
from wanderlust.report.explorer import server
from wanderlust.report.explorer.gate import Gate, check_port, is_loopback
from wanderlust.runs.zoo import open_run


def free_port():
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]


@pytest.fixture
def gate():
    """A gate before a server that answers every request with what it was sent."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def echo(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
        await writer.drain()
        writer.close()

    def call(what):
        return asyncio.run_coroutine_threadsafe(what, loop).result(10)

    behind = call(asyncio.start_server(echo, "127.0.0.1", 0))
    front = call(Gate("secret", behind.sockets[0].getsockname()[1]).open("127.0.0.1", 0))
    yield front.sockets[0].getsockname()[1]
    for one in (front, behind):
        loop.call_soon_threadsafe(one.close)
    call(asyncio.sleep(0.05))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def get(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def test_only_the_token_opens_the_gate(gate):
    status, fields, text = get(gate, "/")
    assert status == 403 and "token" in text and "secret" not in text + str(fields)
    assert get(gate, "/?token=wrong")[0] == 403
    assert get(gate, "/", Upgrade="websocket", Connection="Upgrade")[0] == 403
    status, fields, _ = get(gate, "/?token=secret")
    assert status == 303 and fields["Location"] == "./"
    cookie = fields["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    name = cookie.split("=")[0]
    status, _, text = get(gate, "/page", Cookie=cookie.split(";")[0])
    assert status == 200 and text.startswith("GET /page HTTP/1.1")
    assert get(gate, "/page", Cookie=f"{name}=secrets")[0] == 403
    assert get(gate, "/page", Cookie=f"other=secret; {name}=")[0] == 403


def test_a_request_that_is_no_request_is_dropped(gate):
    with socket.create_connection(("127.0.0.1", gate), timeout=10) as sent:
        sent.sendall(b"x" * 40_000)
        sent.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert sent.recv(100) == b""
    assert get(gate, "/")[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_is_known(host):
    assert is_loopback(host)


def test_other_hosts_are_not_loopback():
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.0.7", "::", "example.org")))


def test_a_taken_port_names_a_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"^port {port} is taken; --port \d+ is free$") as refused:
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", int(str(refused.value).split()[5]))
    check_port("127.0.0.1", port)  # and is free when the other one is gone


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("127.0.0.1", 0, "--port is 0"),
        ("127.0.0.1", 70_000, "--port is 70000"),
        ("192.0.2.1", 8080, "cannot listen on"),
    ],
)
def test_impossible_addresses_are_refused(host, port, message):
    with pytest.raises(UserError, match=message):
        check_port(host, port)


def test_sets_are_those_of_the_same_body():
    names = [one.name for one in server.offered([open_run("zoo:ant")], 0)]
    assert names[0] == "zoo:ant" and "zoo:ant-16" in names and not any("humanoid" in name for name in names)
    with pytest.raises(UserError, match=r"zoo:ant is of ant and zoo:humanoid of humanoid; explore them one by one"):
        server.offered([open_run("zoo:ant"), open_run("zoo:humanoid")], 0)
    with pytest.raises(UserError, match="no seed 3"):
        server.offered([trained()], 3)


def test_without_a_run_it_is_the_entry_that_is_best_to_drive(monkeypatch, tmp_path):
    assert server.usual_entry() in {f"zoo:{name}" for name in server.DRIVABLE}
    monkeypatch.setenv("WANDERLUST_ZOO", str(tmp_path))
    with pytest.raises(UserError, match="no RUN given"):
        server.usual_entry()


def test_without_the_viewer_one_line_names_the_extra(monkeypatch, command_line):
    def missing(name):
        raise server.PackageNotFoundError(name)

    monkeypatch.setattr(server, "version", missing)
    code, out, err = command_line("explore")
    assert (code, out) == (
        2,
        "",
    ) and err == "wanderlust: the explorer needs viser: pip install 'wanderlust[explorer]'\n"
    monkeypatch.setattr(server, "version", lambda name: "1.0.3")
    assert "viser 1.0.3 is too old" in command_line("explore")[2]


def test_a_world_that_cannot_be_drawn_is_refused():
    class Line:
        class spec:  # noqa: N801
            name = "line"
            groups = {"position": (0,)}  # noqa: RUF012

    with pytest.raises(UserError, match="line has no MuJoCo model"):
        server.require_drawable(Line())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_a_page_and_ends_in_one_line(how, tmp_path):
    port = free_port()
    process = start_python("-m", "wanderlust", "explore", trained().path, "--port", str(port), cwd=tmp_path)
    try:
        line = process.stdout.readline()
        assert f"at http://127.0.0.1:{port} " in line
        status, _, text = get(port, "/")
        assert status == 200 and "<html" in text
        os.kill(process.pid, how)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "the explorer is closed\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_port_is_looked_at_before_anything_is_loaded(command_line, monkeypatch):
    monkeypatch.setattr(server, "load", lambda *_: pytest.fail("skills were loaded"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        code, out, err = command_line("explore", "zoo:ant", "--port", port)
    assert (code, out) == (2, "") and err.startswith(f"wanderlust: port {port} is taken; --port ")


def test_from_outside_the_page_has_a_token(tmp_path):
    explorer = server.Explorer([server.SkillSet("tiny", trained(), 0)])
    port = free_port()
    address = explorer.open("0.0.0.0", port)
    try:
        assert f":{port}/?token=" in address
        assert get(port, "/")[0] == 403
        status, fields, _ = get(port, address[address.index("/?") :])
        assert status == 303
        status, _, text = get(port, "/", Cookie=fields["Set-Cookie"].split(";")[0])
        assert status == 200 and "<html" in text
    finally:
        explorer.close()
    assert np.isfinite(explorer.simulation.obs).all()
