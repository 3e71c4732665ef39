"""Who may ask: every route and method, every Host, Origin and token; nothing but the allowed passes."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from starlette.routing import Route

from mnemon.errors import MnemonError
from mnemon.serve.http import gate, pages
from mnemon.serve.http.app import routes
from mnemon.serve.service import Service
from serving import SMALL, TOKEN

HEADERS = [(b"host", b"127.0.0.1:8765"), (b"authorization", f"Bearer {TOKEN}".encode())]
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
HOSTS = {
    "127.0.0.1:8765": True,
    "localhost:8765": True,
    "[::1]:8765": True,
    "evil.example": False,
    "127.0.0.1.evil.example:8765": False,
    "localhost.": False,
    "": False,
}
SITES = {  # Origin (OWN: that of the Host), Sec-Fetch-Site
    (None, None): True,
    ("OWN", "same-origin"): True,
    ("OWN", None): True,
    (None, "none"): True,
    ("http://evil.example", "cross-site"): False,
    ("http://evil.example", None): False,
    ("null", None): False,
    ("OWN", "same-site"): False,
    (None, "cross-site"): False,
    ("http://127.0.0.1:9999", None): False,
}
TOKENS = {
    f"Bearer {TOKEN}": True,
    f"bearer {TOKEN}": True,
    None: False,
    "": False,
    "Bearer wrong": False,
    f"Basic {TOKEN}": False,
}


def test_nothing_but_the_allowed_passes(http):
    client = http()
    del client.headers["Authorization"]
    paths = {route.path for route in routes(client.models).routes if isinstance(route, Route)}
    assert {"/metrics", "/openapi.json", "/v1/models/{m}/learn", "/v1/models/{m}/snapshot"} <= paths
    paths = [path.replace("{m}", "model") for path in sorted(paths)] + ["/", "/nothing", "/v1/models/model/learn/"]
    open_paths = {*pages.files(), "/healthz"}
    assert {"/", "/page/app.js", "/page/style.css"} < open_paths <= {*paths}
    checked = gate.Gate(None, [gate.token_of(TOKEN)], rate=1e9, open_paths=open_paths)
    seen = 0
    for path, method, host, (origin, site), token in itertools.product(paths, METHODS, HOSTS, SITES, TOKENS):
        headers = {"host": host}
        if origin is not None:
            headers["origin"] = f"http://{host}" if origin == "OWN" else origin
        headers |= {} if site is None else {"sec-fetch-site": site}
        headers |= {} if token is None else {"authorization": token}
        is_open = path in open_paths and method in ("GET", "HEAD")
        allowed = HOSTS[host] and (is_open or (SITES[origin, site] and TOKENS[token]))
        try:
            checked.check(method, path, gate.Headers(headers))
            passed = True
        except MnemonError:
            passed = False
        assert passed == allowed, (method, path, headers)
        seen += 1
    assert seen > 40_000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_the_app_is_behind_the_gate_on_every_route(http, headers, status):
    client = http()
    for route in routes(client.models).routes:
        for method in METHODS:
            answer = client.request(method, route.path.replace("{m}", "model"), headers=headers)
            if route.path in (*pages.files(), "/healthz") and method in ("GET", "HEAD"):
                assert answer.status_code in ((421,) if status == 421 else (200, 405))
            else:
                assert answer.status_code == status
                assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/models/model").json()["acknowledged"] == 0


def test_every_answer_forbids_what_a_page_could_do_with_it(http):
    client = http()
    for answer in (client.get("/v1/models"), client.get("/nothing"), client.get("/healthz"), client.post("/metrics")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not any(name.startswith("access-control") or name == "set-cookie" for name in answer.headers)


def test_a_token_does_what_its_scopes_say(http, tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\nonly-for-predictions predict\nonly-for-teaching-it learn, metrics\n")
    with pytest.raises(MnemonError, match="chmod 600"):
        gate.read_tokens(file)
    file.chmod(0o600)
    client = http(tokens=gate.read_tokens(file), token="only-for-predictions")
    body = {"json": {"x": [[1.0]], "y": ["a"]}}
    assert client.post("/v1/models/model/learn", **body).status_code == 403
    assert client.post("/v1/models/model/retract", json={"position": 1}).status_code == 403
    assert client.get("/v1/models/model/snapshot").status_code == 403
    assert client.get("/metrics").status_code == 403
    assert client.get("/v1/models/model").status_code == 200
    client.headers["Authorization"] = "Bearer only-for-teaching-it"
    assert client.post("/v1/models/model/learn", **body).status_code == 202
    assert client.get("/metrics").status_code == 200
    assert client.get("/v1/models/model").status_code == 403
    for text, sentence in [("short", "16 characters"), ("", "empty"), ("long-enough-a-token all", "scope 'all'")]:
        file.write_text(text)
        with pytest.raises(MnemonError, match=sentence):
            gate.read_tokens(file)


def test_a_model_may_be_called_as_a_route(http, tmp_path):
    for name in ("learn", "metrics"):
        Service(tmp_path / "models" / name, options=SMALL, device="cpu").close()
    client = http("models", options={}, tokens=[gate.token_of(TOKEN, frozenset({"predict"}))])
    assert client.get("/v1/models/learn").status_code == 200
    assert client.get("/v1/models/metrics").status_code == 200
    assert client.get("/metrics").status_code == 403
    assert client.post("/v1/models/learn/learn").status_code == 403


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Birds.example:8765", "birds.example"),
        ("::1", "[::1]"),
        ("[fe80::1]:80", "[fe80::1]"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
def test_the_port_of_a_host_is_nothing_to_the_gate(given, name):
    assert gate.host_name(given) == name


@pytest.mark.parametrize("given", ["", "http://birds.example", "a b", "a/b"])
def test_what_is_no_host_is_refused(given):
    with pytest.raises(MnemonError, match="no name of a host"):
        gate.host_name(given)


def test_a_request_that_is_cancelled_at_shutdown_may_be_sent_again():
    answers = []

    async def app(scope, receive, send):
        await asyncio.sleep(60)

    async def send(message):
        answers.append(message)

    async def main():
        scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": HEADERS, "query_string": b""}
        request = asyncio.ensure_future(gate.Gate(app, [gate.token_of(TOKEN)])(scope, None, send))
        await asyncio.sleep(0)
        request.cancel()
        await request

    asyncio.run(main())
    assert answers[0]["status"] == 503
    assert (b"retry-after", b"5") in answers[0]["headers"]


def test_a_slow_rate_lets_a_request_pass(http):
    client = http(rate=0.01)
    assert [client.get("/v1/models").status_code for _ in range(2)] == [200, 429]


def test_a_token_has_a_rate(http, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(gate, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client = http(rate=5)
    answers = [client.get("/v1/models") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
    now[0] += 0.25
    assert [client.get("/v1/models").status_code for _ in range(2)] == [200, 429]
