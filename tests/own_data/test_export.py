"""`mnemon export`: one file without mnemon, which answers as the live model does."""

import errno
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command_line import run
from mnemon import MnemonError, OnlineClassifier
from mnemon.own_data import export as exporting
from mnemon.own_data.images import ImageModel

ROWS = (1, 2, 1000)


def images(n, side):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, n)
    return (y[:, None, None, None] * 60 + rng.integers(0, 60, (n, side, side, 3))).astype(np.uint8), y


def vectors(n):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, n)
    return (rng.normal(size=(n, 9)) * 30 + 50 * y[:, None]).astype(np.float32), y


MODELS = {
    "images, default": lambda: (*images(60, 26), OnlineClassifier()),
    "vectors, default": lambda: (*vectors(200), OnlineClassifier()),
    "images, resnet": lambda: (*images(60, 26), OnlineClassifier("hybrid")),
    "images, mlp": lambda: (*images(200, 8), OnlineClassifier("hybrid")),
    "vectors, scaled": lambda: (*vectors(200), OnlineClassifier("hybrid")),
    "vectors, softmax": lambda: (*vectors(200), OnlineClassifier("er", classifier="softmax")),
    "vectors, raw means": lambda: (*vectors(200), OnlineClassifier("er", classifier="ncm-raw")),
    "vectors, proxies": lambda: (*vectors(200), OnlineClassifier("hybrid", classifier="proxy")),
    "vectors, cosines": lambda: (*vectors(200), OnlineClassifier("pcr")),
    "vectors, ridge": lambda: (*vectors(200), OnlineClassifier("er", classifier="ridge")),
    "vectors, covariance": lambda: (*vectors(200), OnlineClassifier("er", classifier="lda")),
    "vectors, blend": lambda: (*vectors(200), OnlineClassifier("er", classifier="blend")),
    "vectors, slda": lambda: (*vectors(200), OnlineClassifier("slda")),
    "images, slda on patches": lambda: (*images(200, 12), OnlineClassifier("slda")),
    "images and their mirror images": lambda: (*images(200, 12), OnlineClassifier(views=2)),
    "embeddings, default": lambda: (*vectors(200), OnlineClassifier(backbone="identity")),
    "embeddings, class means": lambda: (*vectors(200), OnlineClassifier("hybrid", backbone="identity")),
}


def learned(name, folder):
    x, y, classifier = MODELS[name]()
    labels = np.array(["wren", 7, True, "7"], object)[y].tolist()  # the table keeps types
    classifier.partial_fit(x, labels).save(folder)
    return classifier, np.concatenate([x] * (1000 // len(x) + 1))[:1000]


def check(answers, about, classifier, x):
    """answers(x) → (index, probabilities, features), as the live model has them; `about` is the metadata."""
    assert json.loads(about["labels"]) == classifier.classes_.tolist()
    if len(x[0]) == 9:  # a table, of which the exam is large enough
        assert classifier._model.frozen().calibration is not None
        x[::5] *= 20  # and some are far away
    for rows in ROWS:
        index, probabilities, features = answers(x[:rows])
        assert index.tolist() == classifier.predict_proba(x[:rows]).argmax(1).tolist()
        assert np.abs(probabilities - classifier.predict_proba(x[:rows])).max() < 1e-5
        assert features.shape[0] == rows


@pytest.mark.parametrize("name", MODELS)
def test_onnx_agrees_with_the_live_model_under_onnx_runtime(name, tmp_path, capfd):
    runtime = pytest.importorskip("onnxruntime")
    classifier, x = learned(name, tmp_path / "model.v1")
    path = exporting.export(tmp_path / "model.v1")
    assert path == tmp_path / "model.v1.onnx"
    assert capfd.readouterr() == ("", "")  # the exporter is talkative
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.shape) == ("x", ["n", *x.shape[1:]])
    assert [out.name for out in session.get_outputs()] == ["index", "probabilities", "features"]
    about = session.get_modelmeta().custom_metadata_map
    check(lambda part: session.run(None, {"x": part}), about, classifier, x)


def test_the_lines_of_the_page_see_an_image_as_mnemon_does(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    page = (Path(__file__).parents[2] / "docs" / "own-files.md").read_text(encoding="utf-8")
    opaque, transparent, _ = re.findall(r"```python\n(.*?)```", page[page.index("## export") :], re.DOTALL)
    bright, dark = np.random.default_rng(5).integers([[120], [0]], [[256], [120]], (2, 30 * 16 * 32 * 3), np.uint8)
    up = np.concatenate([bright.reshape(30, 16, 32, 3), dark.reshape(30, 16, 32, 3)], 1)
    x = np.concatenate([up, up[:, ::-1], up.transpose(0, 2, 1, 3), up.transpose(0, 2, 1, 3)[:, :, ::-1]])
    clf = OnlineClassifier(backbone="mlp").fit(x, np.repeat(["up", "down", "left", "right"], 30))
    clf.save(tmp_path / "model")
    exporting.export(tmp_path / "model")
    monkeypatch.chdir(tmp_path)

    turned = Image.Exif()
    turned[0x0112] = 6  # Orientation: to be seen turned clockwise
    stored = Image.fromarray(x[70]).resize((45, 45), Image.Resampling.NEAREST)
    stored.save("new.png", exif=turned)
    known = {}
    exec(opaque, known)
    model = ImageModel.load(tmp_path / "model")
    seen = model.read(Path("new.png"))[None]
    assert np.array_equal(known["x"], seen)
    assert capsys.readouterr().out.split() == clf.predict(seen).tolist() == ["up"]  # and not "left", as it is stored
    assert np.abs(known["probabilities"] - clf.predict_proba(seen)).max() < 1e-5

    stored.putalpha(Image.linear_gradient("L").resize(stored.size))
    stored.save("new.png", exif=turned)
    exec(transparent, known)
    pixels = known["image"].convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
    assert np.array_equal(np.asarray(pixels), model.read(Path("new.png")))


@pytest.mark.parametrize("name", ["images, resnet", "vectors, scaled", "vectors, slda", "images, slda on patches"])
def test_torch_agrees_with_the_live_model_and_holds_no_pickle(name, tmp_path):
    classifier, x = learned(name, tmp_path / "model")
    path = exporting.export(tmp_path / "model", format="torch")
    extra = {"labels.json": "", "mnemon.json": ""}
    module = torch.export.load(path, extra_files=extra).module()
    about = {name.removesuffix(".json"): text for name, text in extra.items()}
    check(lambda part: [t.numpy() for t in module(torch.from_numpy(part))], about, classifier, x)
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            content = archive.read(entry)
            assert not content.startswith((b"\x80\x02", b"\x80\x04", b"PK"))
            if entry.endswith("_config.json"):
                config = json.loads(content)["config"]
                assert not any(tensor["use_pickle"] for tensor in config.values())


def test_the_command_prints_the_file(tmp_path, capsys):
    learned("embeddings, default", tmp_path / "model")
    words = ("export", str(tmp_path / "model"), "--format", "torch")
    assert run(*words, capsys=capsys)[0] == f"{tmp_path / 'model.pt2'}\n"
    assert run(*words, "--out", str(tmp_path / "a.pt2"), capsys=capsys)[0] == f"{tmp_path / 'a.pt2'}\n"


@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_a_full_disk_is_one_sentence(format, tmp_path, monkeypatch):
    """PyTorch's own writer would end the process."""
    if format == "onnx":
        pytest.importorskip("onnxscript")
    learned("embeddings, default", tmp_path / "model")

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(MnemonError, match=r"m.file could not be written \(No space left on device\)"):
        exporting.export(tmp_path / "model", tmp_path / "m.file", format=format)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_from_python_a_path_may_be_text_and_something_must_be_learned(tmp_path):
    classifier, _ = learned("embeddings, default", tmp_path / "model")
    exporting.write(classifier, str(tmp_path / "q.pt2"), format="torch")
    assert zipfile.is_zipfile(tmp_path / "q.pt2")
    with pytest.raises(MnemonError, match=r"^there is nothing to export before something was learned\.$"):
        exporting.write(OnlineClassifier(), tmp_path / "r.pt2", format="torch")
    assert not (tmp_path / "r.pt2").exists()


def test_without_the_extra_there_is_a_sentence(tmp_path, monkeypatch):
    learned("embeddings, default", tmp_path / "model")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MnemonError, match=r"exporting to onnx needs the extra: pip install 'mnemon\[export\]'"):
        exporting.export(tmp_path / "model")
    assert not (tmp_path / "model.onnx").exists()
