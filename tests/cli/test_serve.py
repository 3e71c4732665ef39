"""`mnemon serve` as a process: what it prints, how it stops, where the token is not."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from command_line import run
from mnemon import Client, OnlineClassifier
from mnemon.serve.client import ClientError
from processes import PATIENCE


@contextlib.contextmanager
def started(command, environment):
    """A process that is gone in the end, also where the test fails."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_prints_a_link_learns_and_stops_with_everything_saved(tmp_path):
    command = [sys.executable, "-m", "mnemon", "serve", str(tmp_path / "model"), "--port", "0"]
    command += ["--backbone", "mlp:width=16", "--memory-size", "20", "--device", "cpu"]
    environment = {name: value for name, value in os.environ.items() if name != "MNEMON_TOKEN"}
    with started(command, environment) as process:
        first, second, link = (process.stdout.readline().strip() for _ in range(3))
        address = re.fullmatch(r"serving model at (http://127\.0\.0\.1:\d+)", first)[1]
        token = second.removeprefix("token, shown once: ")
        link = link.removeprefix("the page: ")
        assert link == f"{address}/#token={token}"
        with Client(link) as client:
            ack = client.learn([[0.0], [1.0]], ["a", "b"], wait="published")
            assert client.predict([[0.0]], after=ack["position"])["learned"] == 2
            with pytest.raises(ClientError, match="features"):
                client.learn([[0.0, 1.0]], ["a-private-label"])
        with pytest.raises(urllib.error.HTTPError, match="401"):  # a token in a URL would be in logs and histories
            urllib.request.urlopen(f"{address}/v1/models?token={token}")
        if Path(f"/proc/{process.pid}/cmdline").exists():
            assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "stopped by SIGINT; everything is saved" in err
    assert token not in out + err
    assert "a-private-label" not in out + err
    assert err.count("\n") == 1
    assert OnlineClassifier.load(tmp_path / "model").n_seen_ == 2


def test_mistakes_are_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("MNEMON_TOKEN", raising=False)
    (tmp_path / "file").write_text("x")
    (tmp_path / "token").write_text("a-token-that-all-can-read")
    (tmp_path / "token").chmod(0o644)
    model = str(tmp_path / "model")
    for words, sentence in [
        ((str(tmp_path / "file"), "--port", "0"), "is a file"),
        ((model, "--port", "99999"), "0 to 65535"),
        ((model, "--port", "0", "--token-file", str(tmp_path / "token")), "chmod 600"),
        ((model, "--port", "0", "--method", "nothing"), "unknown method"),
        ((model, "--port", "0", "--tls-cert", "x"), "both"),
        ((model, "--port", "0", "--tls-cert", "nosuch.pem", "--tls-key", "nosuch.pem"), "cannot be used"),
        ((model, "--port", "0", "--allow-host", "http://birds"), "no name of a host"),
        ((model, "--port", "0", "--rate", "0"), "above 0"),
    ]:
        _, err = run("serve", *words, code=2, capsys=capsys)
        assert sentence in err
        assert not (tmp_path / "model").exists()
    monkeypatch.setenv("MNEMON_TOKEN", "short")
    _, err = run("serve", model, "--port", "0", code=2, capsys=capsys)
    assert "16 characters" in err


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "httptools", "prometheus_client"])
def test_without_the_extra_it_says_what_to_install(tmp_path, capsys, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    _, err = run("serve", str(tmp_path / "model"), code=2, capsys=capsys)
    assert f"needs {missing}: pip install 'mnemon[serve]'" in err
