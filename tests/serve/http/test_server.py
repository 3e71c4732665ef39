"""The server as clients reach it: connections that say nothing, and what it is called."""

import contextlib
import io
import json
import socket
import threading
import time

import numpy as np
import pytest

from mnemon import Client
from mnemon.errors import MnemonError
from mnemon.serve.http import connection, server
from mnemon.serve.http.gate import token_of
from mnemon.serve.http.models import Models
from mnemon.serve.learning import Learning
from serving import SMALL, TOKEN


@contextlib.contextmanager
def running(folder, ended=None):
    ended, at = ended or threading.Event(), server.listening("127.0.0.1", 0)
    models = Models(folder, options=SMALL, device="cpu")
    more = {"stop": ended.is_set}
    thread = threading.Thread(target=server.serve, args=(models, at, [token_of(TOKEN)]), kwargs=more)
    thread.start()
    try:
        yield at.getsockname()
    finally:
        ended.set()
        thread.join()


def test_connections_that_say_nothing_lock_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 4)
    monkeypatch.setattr(connection, "HEADERS", 0.3)
    monkeypatch.setattr(connection, "BODY", 0.3)
    whole = b"POST /v1/models/model/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
    whole += b"Content-Type: application/json\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n{"
    healthy = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with running(tmp_path / "model") as place, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(place, timeout=30)) for _ in range(5)]
        for each, content in zip(silent, (b"", b"GET / HT", whole, healthy + b"GET /", b""), strict=True):
            each.sendall(content)
        for each in silent:
            while each.recv(65536):
                pass  # closed in the end
        with Client(f"http://127.0.0.1:{place[1]}", "model", token=TOKEN) as client:
            assert client.learn([[0.0], [1.0]], ["a", "b"])["position"] == 2


def never_ends(one):
    """A body that no token allows, a byte at a time."""
    one.sendall(b"POST /v1/models/model/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(100):
        one.sendall(b"x")
        time.sleep(0.05)
    raise AssertionError("the connection stays")


def sends_empty_lines(one):
    """They are no request, and end the time in which one is expected."""
    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    one.recv(65536)
    one.sendall(b"\r\n")
    assert one.recv(65536) == b""


def never_reads(one):
    for _ in range(1500):  # until the server reads no more, and then until it closes the connection
        one.sendall(b"GET /page/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100)
    raise AssertionError("all requests were read")


def sends_headers_without_end(one):
    one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    for _ in range(200):
        one.sendall(b"X: x\r\n" * 10_000)
    raise AssertionError("they were all taken")


@pytest.mark.parametrize("client", [never_ends, sends_empty_lines, never_reads, sends_headers_without_end])
def test_without_a_token_nobody_holds_a_connection_or_memory(tmp_path, monkeypatch, client):
    for name in ("HEADERS", "BODY", "ANSWER"):
        monkeypatch.setattr(connection, name, 20.0 if client is sends_headers_without_end else 0.5)
    with (
        running(tmp_path / "model") as place,
        socket.create_connection(place, timeout=10) as one,
        contextlib.suppress(ConnectionError),
    ):
        client(one)


def test_an_answer_that_is_read_slowly_comes_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "ANSWER", 1.5)  # less than it takes
    with socket.socket() as one, running(tmp_path / "model") as place:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**15)
        one.connect(place)
        one.sendall(b"GET /page/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300)
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        found = b""
        while part := one.recv(2**17):
            found = found[-1000:] + part
            time.sleep(0.04)
        assert found.endswith(b'{"status":"ok"}')


def test_requests_sent_without_waiting_for_answers_are_answered_whole_and_in_order(tmp_path):
    """Also those whose bodies come in many parts, and which are more than is read ahead."""
    x = np.random.default_rng(0).normal(size=(1000, 300)).astype(np.float32)
    with running(tmp_path / "model") as place, socket.create_connection(place, timeout=60) as one:
        for part in np.split(x, 5):
            body = io.BytesIO()
            np.save(body, part)
            head = f"POST /v1/models/model/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            head += f'Content-Type: application/x-npy\r\nMnemon-Labels: ["a"]\r\nContent-Length: {body.tell()}\r\n\r\n'
            one.sendall(head.encode() + body.getvalue())
        answers = one.makefile("rb")
        for n in range(1, 6):
            assert answers.readline().startswith(b"HTTP/1.1 202")
            heads = dict(line.lower().split(b": ", 1) for line in iter(answers.readline, b"\r\n"))
            found = json.loads(answers.read(int(heads[b"content-length"])))
            assert found == {"position": 200 * n, "samples": 200, "repeated": False}
            assert heads[b"x-content-type-options"] == b"nosniff\r\n"


def test_who_still_waits_is_answered_when_the_server_stops(tmp_path, monkeypatch):
    waits, ended, wait = threading.Event(), threading.Event(), Learning.wait

    def noted(self, position, **more):
        waits.set()
        return wait(self, position, **more)

    with running(tmp_path / "model", ended) as place, socket.create_connection(place, timeout=60) as one:
        with Client(f"http://127.0.0.1:{place[1]}", "model", token=TOKEN) as client:
            client.learn([[0.0], [1.0]], ["a", "b"], wait="published")
        monkeypatch.setattr(Learning, "wait", noted)
        body = b'{"x": [[0.0]]}'
        head = (
            f"POST /v1/models/model/predict?after=100 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        )
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        one.sendall(head.encode() + body)
        assert waits.wait(60)
        ended.set()
        assert one.recv(65536).startswith(b"HTTP/1.1 504")


def test_it_is_called_by_the_address_it_has_or_by_a_name_it_is_given():
    with server.listening("127.0.0.1", 0) as at:
        assert server.bound(at, "localhost", ()) == (("localhost", "127.0.0.1"), "localhost", True)
    with server.listening("0.0.0.0", 0) as at:
        assert server.bound(at, "0.0.0.0", ()) == ((), "localhost", False)
        assert server.bound(at, "0.0.0.0", ("Birds:80", "b")) == (("birds", "b"), "birds", False)


def test_a_certificate_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(MnemonError, match="cannot be used"):
        server.check_tls(tmp_path / "nosuch.pem", tmp_path / "key.pem")
