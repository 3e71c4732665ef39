"""A certificate for localhost that nobody else trusts."""

import shutil
import subprocess

import pytest


def self_signed(folder):
    """Its file, and that of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate), *names], check=True, capture_output=True)
    return certificate, key
