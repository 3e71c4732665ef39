"""`mnemon demo --serve`: a temporary model that knows five digits, and a link to its page."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from mnemon.cli import demo
from mnemon.errors import MnemonError


def test_it_serves_a_model_that_knows_five_digits_and_leaves_nothing(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    command = [sys.executable, "-c", "from mnemon.cli import main; main()", "demo", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            link = next(line.strip() for line in process.stdout if line.startswith("http://127.0.0.1:"))
            address, _, token = link.partition("/#token=")
            assert b"<title>mnemon" in urllib.request.urlopen(f"{address}/", timeout=10).read()
            request = urllib.request.Request(
                f"{address}/v1/models/digits", headers={"Authorization": f"Bearer {token}"}
            )
            status = json.load(urllib.request.urlopen(request, timeout=10))
            assert [each["label"] for each in status["classes"]] == list("01234")
            assert status["shape"] == [1, 8, 8]
            curves = urllib.request.Request(f"{address}/v1/models/digits/curves", headers=dict(request.header_items()))
            assert json.load(urllib.request.urlopen(curves, timeout=10))["accuracy"] > 0.5
            assert list(tmp_path.glob("mnemon-demo-*"))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
    assert process.returncode == 0
    assert not list(tmp_path.glob("mnemon-demo-*"))


def test_a_browser_is_opened_only_where_it_is_seen(monkeypatch):
    for name in ("WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(demo.sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    assert demo._has_display()
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    assert not demo._has_display()
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.setenv("DISPLAY", "")
    assert not demo._has_display()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MnemonError, match=r"pip install 'mnemon\[serve\]'"):
        demo.demo(serve=True)
