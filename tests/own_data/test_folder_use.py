"""`mnemon predict` and `mnemon evaluate` on files, as a person meets them."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import run
from folder_images import make, pixels
from mnemon import OnlineClassifier
from mnemon.own_data import page
from mnemon.own_data.evaluate import Evaluation, evaluate
from mnemon.own_data.fit import fit
from mnemon.own_data.images import ImageModel


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    fit(make(folder / "photos", each=30), folder / "model", size=12, method="hybrid")
    return folder / "model"


def test_predict_says_label_and_confidence(model, tmp_path, capsys):
    photos = make(tmp_path / "new", each=2, start=500)
    out, err = run("predict", str(model), str(photos / "red" / "0500.png"), str(photos / "blue"), capsys=capsys)
    lines = [line.split() for line in out.splitlines()]
    assert [line[1] for line in lines] == ["red", "blue", "blue"]
    assert [line[0] for line in lines] == [str(photos / p) for p in ("red/0500.png", "blue/0500.png", "blue/0501.png")]
    assert all(line[3] == "%" and 33.3 < float(line[2]) <= 100 for line in lines)
    assert err == ""


def test_predict_takes_the_files_below_a_folder_that_fit_would_take(model, tmp_path, capsys):
    photos = make(tmp_path / "new", ["red"], each=2, start=500)
    (photos / "red" / "old").mkdir()
    (photos / "red" / "0501.png").rename(photos / "red" / "old" / "0501.png")
    (photos / ".cache").mkdir()
    (photos / ".cache" / "0.png").touch()
    (photos / "loop").symlink_to(photos)
    out, _ = run("predict", str(model), str(photos), capsys=capsys)
    assert [line.split()[0] for line in out.splitlines()] == [
        str(photos / "red" / "0500.png"),
        str(photos / "red" / "old" / "0501.png"),
    ]


def test_predict_as_json_equals_the_model_in_python(model, tmp_path, capsys):
    photos = make(tmp_path / "new", each=2, start=500)
    out, _ = run("predict", str(model), f"{photos}/*/*.png", "--json", "--top", "2", capsys=capsys)
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["image"] for line in found] == sorted(map(str, photos.glob("*/*.png")))
    classifier = OnlineClassifier.load(model)
    reader = ImageModel.load(model)
    p = classifier.predict_proba(np.stack([reader.read(path) for path in sorted(photos.glob("*/*.png"))]))
    assert [line["confidence"] for line in found] == p.max(1).tolist()
    assert [line["label"] for line in found] == classifier.classes_[p.argmax(1)].tolist()
    assert [line["top"][1]["confidence"] for line in found] == np.sort(p, 1)[:, -2].tolist()


def test_predict_does_not_label_what_it_is_unsure_of(model, tmp_path, capsys):
    photos = make(tmp_path / "new", ["red"], each=1, start=500)
    noise = np.random.default_rng(0).integers(256, size=(12, 12, 3)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    reader = ImageModel.load(model)
    files = [str(photos / "red" / "0500.png"), str(tmp_path / "noise.png")]
    sure, unsure = reader.classifier.predict_proba(np.stack([reader.read(Path(file)) for file in files])).max(1)
    assert unsure < sure
    least = str((sure + unsure) / 2)
    out, _ = run("predict", str(model), *files, "--reject", least, "--json", capsys=capsys)
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["label"] for line in found] == ["red", None]
    assert [line["confidence"] for line in found] == [sure, unsure]
    out, _ = run("predict", str(model), *files, "--reject", least, capsys=capsys)
    assert [line.split()[1] for line in out.splitlines()] == ["red", "unsure:"]


def test_an_image_of_another_size_and_mode_is_brought_to_what_the_model_takes(model, tmp_path, capsys):
    Image.fromarray(pixels("green", 700, size=90)).convert("P").resize((120, 90)).save(tmp_path / "large.png")
    out, _ = run("predict", str(model), str(tmp_path / "large.png"), capsys=capsys)
    assert " green " in out


def test_a_file_that_cannot_be_read_gets_a_sentence_and_the_others_their_label(model, tmp_path, capsys):
    photos = make(tmp_path / "new", ["red"], each=1)
    (tmp_path / "text.png").write_text("hello")
    words = ("predict", str(model), str(tmp_path / "text.png"), str(photos), str(tmp_path / "gone.png"))
    out, err = run(*words, code=2, capsys=capsys)
    assert out.count("\n") == 1
    assert " red " in out
    assert [line.startswith("mnemon: ") for line in err.splitlines()] == [True] * 3
    assert "text.png is not a readable image (its format is not known)." in err
    assert "there is no file" in err
    assert "2 of 3 images could not be read." in err
    out, _ = run(*words, "--json", code=2, capsys=capsys)
    assert ["error" in json.loads(line) for line in out.splitlines()] == [True, False, True]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("predict MODEL", "name at least one image"),
        ("predict MODEL empty", "there are no images in empty"),
        ("predict MODEL *.png", "there are no images in *.png"),
        ("predict empty a.png", "empty holds no saved model."),
        ("predict MODEL empty/a.png --top 0", "top is how many labels to show, 1 or more, not 0."),
        (
            "predict MODEL empty/a.png --reject 2",
            "reject is the least probability of a label, a number from 0 to 1, not 2.0.",
        ),
        ("evaluate MODEL empty", "empty holds 0 class folders"),
        ("evaluate empty empty", "empty holds no saved model."),
        ("evaluate MODEL broken", "none of the 1 images could be read, so there is nothing to evaluate."),
        (
            "evaluate MODEL broken --out MODEL",
            "cannot be written: the folder of the model model holds nothing else; give an --out elsewhere.",
        ),
        (
            "evaluate MODEL broken --out MODEL/new/page",
            "cannot be written: the folder of the model model holds nothing else; give",
        ),
        ("evaluate MODEL broken --out broken/page", "broken/page lies in broken, whose folders are classes; give"),
        (
            "export MODEL --format torch --out MODEL/m.pt2",
            "m.pt2 cannot be written: the folder of the model model holds nothing else; give",
        ),
        ("export empty", "empty holds no saved model."),
        ("export MODEL --format onx", "unknown format 'onx'; did you mean 'onnx'?"),
        ("export MODEL --format torch --out nowhere/m.pt2", "nowhere/m.pt2 cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(words, sentence, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    make(tmp_path / "broken", ["red"], each=1)
    (tmp_path / "broken" / "red" / "0000.png").write_bytes(b"")
    before = sorted(path.name for path in model.iterdir())
    out, err = run(*words.replace("MODEL", str(model)).split(), code=2, capsys=capsys)
    assert out == ""
    assert sorted(path.name for path in model.iterdir()) == before
    assert sentence in err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "empty"]


def test_grey_models_of_python_take_files_too(tmp_path, capsys):
    x = np.random.default_rng(0).integers(0, 60, (40, 10, 10), dtype=np.uint8)
    x[1::2] += 180
    OnlineClassifier("hybrid").partial_fit(x, [0, 1] * 20).save(tmp_path / "model")
    Image.fromarray(np.full((30, 30), 220, np.uint8)).save(tmp_path / "bright.png")
    out, _ = run("predict", str(tmp_path / "model"), str(tmp_path / "bright.png"), "--json", capsys=capsys)
    assert json.loads(out)["label"] == 1


def test_evaluate_counts_every_image(model, tmp_path, capsys):
    photos = make(tmp_path / "test", ["red", "green", "blue", "grey"], each=6, start=600)
    (photos / "red" / "0600.png").write_bytes(b"no image")
    found = evaluate(ImageModel.load(model), photos)
    assert found.labels == ["blue", "green", "grey", "red"]
    assert found.matrix.sum(1).tolist() == [6, 6, 6, 5]
    assert found.matrix[:, 2].tolist() == [0, 0, 0, 0]  # grey was never learned
    assert (found.samples, found.right, found.skipped) == (23, 17, 1)
    grey = next(c for c in found.classes() if c.label == "grey")
    assert (grey.accuracy, grey.precision, grey.learned) == (0, None, False)
    assert found.matrix[2, found.labels.index(grey.taken_for)] == found.matrix[2].max()

    (photos / "red" / "old").mkdir()
    (photos / "red" / "0601.png").rename(photos / "red" / "old" / "0601.png")
    (photos / "beside.png").touch()
    words = ("evaluate", str(model), str(photos), "--out", str(tmp_path / "out"))
    out, err = run(*words, capsys=capsys)
    assert f"left out of {photos}: 1 file outside any class folder (as {photos / 'beside.png'}).\n" in err
    assert "73.9 % right: 17 of 23 images" in out
    assert "never learned" in out
    assert "skipped: " in err
    data = json.loads(run(*words, "--json", capsys=capsys)[0])
    assert data["accuracy"] == pytest.approx(100 * 17 / 23)
    assert data["confusion"] == {"labels": found.labels, "true_by_predicted": found.matrix.tolist()}
    with Image.open(data["picture"]) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
    text = (tmp_path / "out" / "evaluation.html").read_text()
    assert "Never shown to the model, so counted as wrong: grey (6 images)." in text
    assert "Left out, since unreadable: 1 file." in text


def test_evaluate_says_which_images_the_model_was_fitted_with(model, tmp_path, capsys):
    photos = make(tmp_path / "photos", each=40)  # the first 30 of each class are those of the model
    words = ("evaluate", str(model), str(photos), "--out", str(tmp_path / "out"))
    _, err = run(*words, capsys=capsys)
    assert "the model was fitted with 90 of these 120 images: its accuracy on them says little about new ones." in err
    assert "fitted with 90 of these 120 images" in (tmp_path / "out" / "evaluation.html").read_text()
    assert json.loads(run(*words, "--json", capsys=capsys)[0])["known"] == 90
    new = make(tmp_path / "new", each=5, start=600)
    out, err = run("evaluate", str(model), str(new), "--json", "--out", str(tmp_path / "out"), capsys=capsys)
    assert json.loads(out)["known"] == 0
    assert "fitted with" not in err + (tmp_path / "out" / "evaluation.html").read_text()


def test_class_names_are_printed_as_they_stand(tmp_path, capsys):
    """rich would colour by the first, draw the second and fail at the third."""
    photos = make(tmp_path / "photos", ["green", "red"], each=10)
    (photos / "green").rename(photos / "[red]x")
    (photos / "red").rename(photos / ":smile:")  # its images are taken for the class below
    x = np.stack([pixels(label, number, size=12) for label in ("red", "green") for number in range(10)])
    OnlineClassifier().partial_fit(x, ["[/x]"] * 10 + [":smile:"] * 10).save(tmp_path / "model")
    out, _ = run("evaluate", str(tmp_path / "model"), str(photos), "--out", str(tmp_path / "out"), capsys=capsys)
    rows = [line.split() for line in out.splitlines()]
    assert ["[red]x", "10", "0.0", "–", "never", "learned"] in rows
    assert [":smile:", "10", "0.0", "0.0", "[/x]"] in rows


def test_the_page_loads_nothing_and_names_cannot_break_it():
    labels = ["<script>alert(1)</script>", "a&b", "$x$", "雪\u202e", "plain"]
    found = Evaluation(labels, np.arange(25).reshape(5, 5), [True] * 5, 0)
    text = page.page(found, model="<m>", data='"d"')
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert page.picture(found) == page.picture(found)


@pytest.mark.parametrize("classes", [1, 30, 300])
def test_any_number_of_classes_can_be_drawn(classes):
    found = Evaluation([str(n) for n in range(classes)], np.eye(classes, dtype=np.int64), [True] * classes, 0)
    assert page.picture(found).startswith(b"\x89PNG")
    assert page.page(found, model="m", data="d").count("<tr>") == classes + 1
