"""The client: it tries again while the server is away or busy, and what it sends counts once."""

import http.server
import json
import ssl
import threading
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

from certificates import self_signed
from mnemon import Client
from mnemon.errors import MnemonError
from mnemon.serve import client as clients
from mnemon.serve.client import ClientError


@pytest.fixture
def scripted(monkeypatch):
    """A server that answers as it is told and keeps what it was asked."""
    monkeypatch.setattr(clients, "FIRST", 0.001)
    monkeypatch.setattr(clients, "MOST", 0.002)
    asked, answers = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((self.command, self.path, dict(self.headers), body))
            status, answer = answers.pop(0) if answers else (200, {"models": ["only one"]})
            if status == 0:  # dies before it answers
                self.close_connection = True
                return
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked, answers
    server.shutdown()
    server.server_close()


def test_a_request_is_tried_again_with_the_same_key(scripted):
    url, asked, answers = scripted
    answers += [(200, {"models": ["m"]}), (503, {"detail": "busy."}), (0, {}), (429, {}), (202, {"position": 2})]
    with Client(f"{url}/#token=secret-of-the-link") as client:
        assert client.learn(np.zeros((2, 3), np.float32), ["a", "b"])["position"] == 2
    keys = {headers["Idempotency-Key"] for _, path, headers, _ in asked if path.endswith("/learn")}
    assert len(keys) == 1
    assert len(asked) == 5
    assert all(headers["Authorization"] == "Bearer secret-of-the-link" for *_, headers, _ in asked)
    assert not any("secret" in path for _, path, _, _ in asked)
    assert len({headers["Idempotency-Key"] for *_, headers, _ in asked[1:]}) == 1


def test_arrays_go_as_bytes_and_the_rest_as_json(scripted):
    url, asked, answers = scripted
    answers += [(202, {"position": 1})] * 4
    with Client(url, "my model", token="t") as client:
        client.learn(np.arange(6).reshape(2, 3), np.array([1, 2]), wait="learned", id="mine")
        client.learn([{"a": np.float32(1)}], ("x",))
        client.predict(np.zeros((1, 3)), top=1, after=7, keep=True)
        client.retract(3)
    paths = [path for _, path, _, _ in asked]
    assert paths[0] == "/v1/models/my%20model/learn?wait=learned"
    assert paths[2] == "/v1/models/my%20model/predict?top=1&after=7&keep=true"
    assert asked[0][2]["Mnemon-Labels"] == "[1, 2]"
    assert asked[0][2]["Idempotency-Key"] == "mine"
    assert asked[0][3].startswith(b"\x93NUMPY")
    assert json.loads(asked[1][3]) == {"x": [{"a": 1.0}], "y": ["x"]}
    assert json.loads(asked[3][3]) == {"position": 3}


def test_the_columns_of_a_table_are_not_dropped(scripted):
    url, asked, _ = scripted
    with Client(url, "m", token="t") as client, pytest.raises(MnemonError, match="to_dict"):
        client.predict(pd.DataFrame({"b": [1.0], "a": [2.0]}))
    assert asked == []


def test_an_id_may_be_any_text(scripted):
    url, asked, answers = scripted
    answers += [(202, {"position": 1})]
    with Client(url, "m", token="t") as client:
        client.learn(np.zeros((1, 2)), ["a"], id="ключ")
        with pytest.raises(MnemonError, match="ASCII"):
            Client(url, token="ключ")
    _, path, headers, body = asked[0]
    assert path == "/v1/models/m/learn?id=" + quote("ключ")
    assert "Idempotency-Key" not in headers
    assert body.startswith(b"\x93NUMPY")


def test_a_certificate_that_is_not_trusted_is_told_at_once(scripted, tmp_path):
    url, _, _ = scripted
    plain = url.replace("http", "https")
    with Client(plain, "m", token="t", patience=1e9) as client, pytest.raises(MnemonError, match="TLS"):
        client.status()
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"https://localhost:{server.server_port}"
        with (
            Client(place, "m", token="t", patience=1e9) as client,
            pytest.raises(MnemonError, match="certificate is refused"),
        ):
            client.status()
        trusting = ssl.create_default_context(cafile=certificate)
        for trust in ({"cafile": certificate}, {"context": trusting}):
            with Client(place, "m", token="t", **trust) as client, pytest.raises(ClientError) as error:
                client.status()
            assert error.value.status == 501  # it was reached
        server.shutdown()
    with pytest.raises(MnemonError, match="no file with a certificate"):
        Client(url, cafile=tmp_path / "nowhere.pem")


def test_what_the_server_refuses_is_not_tried_again(scripted):
    url, asked, answers = scripted
    answers += [(422, {"detail": "row 3 is not finite."})]
    with Client(url, "m", token="t") as client, pytest.raises(ClientError, match="row 3") as error:
        client.learn([[1.0]], ["a"])
    assert error.value.status == 422
    assert len(asked) == 1


def test_patience_ends_with_a_sentence(scripted):
    url, _, answers = scripted
    answers += [(503, {"detail": "too much waits."})] * 1000
    with Client(url, "m", token="t", patience=0.05) as client, pytest.raises(ClientError, match="too much waits"):
        client.status()
    with (
        Client("http://127.0.0.1:9", "m", token="t", patience=0.05) as client,
        pytest.raises(MnemonError, match="reached"),
    ):
        client.status()
    with pytest.raises(MnemonError, match="no address"):
        Client("ftp://secret@host/")
    answers[:] = [(200, {"models": ["a", "b"]})]
    with Client(url, token="t") as client, pytest.raises(MnemonError, match="say which: a, b"):
        client.status()
