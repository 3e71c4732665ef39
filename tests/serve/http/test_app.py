"""HTTP, in process: what each route answers, and that bad input changes nothing."""

import io
import json
import re
import tarfile
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from mnemon import OnlineClassifier, checkpoint
from mnemon.errors import MnemonError
from mnemon.estimator import saving
from mnemon.serve.http import views, wire
from mnemon.serve.http.wire import Body
from mnemon.serve.service import Service
from processes import wait_for
from serving import FORGETS, SMALL, taught_in_turn

LEARN, PREDICT = "/v1/models/model/learn", "/v1/models/model/predict"
X, Y = [[0.0, 1.0], [5.0, 6.0], [0.1, 1.1], [5.1, 6.1]], ["a", "b", "a", "b"]


def taught(client, n=5):
    for i in range(n):
        answer = client.post(LEARN, json={"x": X, "y": Y, "id": f"t{i}"}, params={"wait": "published"})
        assert answer.status_code == 200, answer.text
    return client


def npy(x):
    stream = io.BytesIO()
    np.save(stream, x)
    return stream.getvalue()


def png(colour, size=(40, 30), kind="PNG"):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, kind)
    return stream.getvalue()


def is_problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["detail"].count("\n") == 0
    assert body["detail"].rstrip().endswith((".", ")"))
    return body["detail"]


def test_learn_predict_and_status(http):
    client = http()
    is_problem(client.post(PREDICT, json={"x": X}), 409)
    answer = client.post(LEARN, json={"x": X, "y": Y})
    assert answer.status_code == 202
    assert answer.json() == {"position": 4, "samples": 4, "repeated": False}
    found = client.post(PREDICT, json={"x": X[:2]}, params={"after": 4, "top": 2}).json()
    assert found["learned"] == 4
    assert [len(each["top"]) for each in found["predictions"]] == [2, 2]
    for each in found["predictions"]:
        assert each["label"] == each["top"][0]["label"]
        assert sum(guess["confidence"] for guess in each["top"]) == pytest.approx(1)
    status = client.get("/v1/models/model").json()
    assert (status["acknowledged"], status["learned"], status["published"]) == (4, 4, 4)
    assert status["classes"] == [{"label": "a", "samples": 2}, {"label": "b", "samples": 2}]
    assert status["shape"] == [2]
    assert client.get("/v1/models").json() == {"models": ["model"]}
    assert "[[0.2, 1.9]]" in is_problem(client.post(LEARN, json={"x": [0.2, 1.9], "y": "a"}), 422)


def test_predictions_equal_those_of_the_library(http, tmp_path):
    client = taught(http())
    found = client.post(PREDICT, json={"x": X}).json()["predictions"]
    client.models.close()
    loaded = OnlineClassifier.load(tmp_path / "model")
    assert [each["label"] for each in found] == loaded.predict(np.array(X)).tolist()
    assert [each["confidence"] for each in found] == loaded.predict_proba(np.array(X)).max(1).tolist()


def test_labels_keep_their_types(http):
    client = http()
    client.post(LEARN, json={"x": [[0.0], [5.0], [9.0]], "y": [True, 1, "1"]}, params={"wait": "published"})
    labels = [each["label"] for each in client.get("/v1/models/model").json()["classes"]]
    assert [(type(label), label) for label in labels] == [(bool, True), (int, 1), (str, "1")]


def test_every_kind_of_body(http):
    client = http()
    rows = "\n".join(json.dumps({"x": x, "y": y, "id": f"row {i}"}) for i, (x, y) in enumerate(zip(X, Y, strict=True)))
    ndjson = {"Content-Type": "application/x-ndjson"}
    assert client.post(LEARN, content=rows, headers=ndjson).json() == {"position": 4, "samples": 4, "repeated": False}
    more = rows + "\n" + json.dumps({"x": X[0], "y": "a", "id": "row 9"})
    assert client.post(LEARN, content=more, headers=ndjson).json()["position"] == 5  # the others are known
    headers = {"Content-Type": "application/x-npy", "Mnemon-Labels": json.dumps(Y)}
    assert client.post(LEARN, content=npy(np.float32(X)), headers=headers).json()["position"] == 9
    answer = client.post(PREDICT, content=npy(np.array(X)), headers=headers, params={"after": 9})
    assert len(answer.json()["predictions"]) == 4
    answer = client.post(PREDICT, content=rows, headers=ndjson)
    assert len(answer.json()["predictions"]) == 4


def test_rows_whose_features_have_names(http):
    client = http()
    rows = [{"width": 1.0, "height": 2.0}, {"height": 7.0, "width": 6.0}]
    client.post(LEARN, json={"x": rows, "y": ["a", "b"]}, params={"wait": "published"})
    assert client.get("/v1/models/model").json()["features"] == ["width", "height"]
    same = [
        client.post(PREDICT, json={"x": [row]}).json()["predictions"]
        for row in (rows[1], dict(reversed(rows[1].items())))
    ]
    assert same[0] == same[1]
    is_problem(client.post(PREDICT, json={"x": [{"width": 1}]}), 422)


def test_images_as_files_forms_and_numbers(http):
    client = http(size=8)
    files = [("image", ("1.png", png("red"))), ("image", ("2.jpg", png("blue", kind="JPEG")))]
    answer = client.post(LEARN, files=files, data={"label": ["red", "blue"]}, params={"wait": "published"})
    assert answer.json()["position"] == 2
    answer = client.post(LEARN, content=png("red"), headers={"Content-Type": "image/png"}, params={"label": "red"})
    assert answer.json()["position"] == 3
    pixels = np.zeros((1, 8, 8, 3), int).tolist()
    assert client.post(LEARN, json={"x": pixels, "y": ["black"]}, params={"wait": "published"}).json()["position"] == 4
    answer = client.post(PREDICT, content=png("red", (8, 8)), headers={"Content-Type": "image/png"})
    assert answer.json()["predictions"][0]["label"] == "red"
    memory = client.get("/v1/models/model/memory", params={"label": "blue"}).json()
    assert memory["kept"] == 4
    assert len(memory["rows"]) == 1
    assert np.shape(memory["rows"][0]["x"]) == (8, 8, 3)
    assert memory["rows"][0]["x"][0][0][2] > 240


def test_thumbnails_of_the_memory_by_class(http):
    client = http(size=8)
    sheet = "/v1/models/model/memory.png"
    is_problem(client.get(sheet), 409)
    files = [("image", (f"{i}.png", png(colour))) for i, colour in enumerate(("red", "blue", "blue"))]
    client.post(LEARN, files=files, data={"label": ["warm", "cold", "cold"]}, params={"wait": "published"})
    answer = client.get(sheet, params={"each": 3})
    assert answer.headers["content-type"] == "image/png"
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)))  # [2 classes × 8, 3 × 8, RGBA]
    assert pixels.shape == (16, 24, 4)
    assert pixels[4, ::8].tolist() == [[255, 0, 0, 255], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert pixels[12, ::8].tolist() == [[0, 0, 255, 255], [0, 0, 255, 255], [0, 0, 0, 0]]
    vectors = http("vectors")
    vectors.post("/v1/models/vectors/learn", json={"x": X, "y": Y}, params={"wait": "published"})
    is_problem(vectors.get("/v1/models/vectors/memory.png"), 409)


def test_what_is_shown_of_the_memory_is_bounded(http, monkeypatch):
    client = http(size=8)
    for name in ("red", "blue", "green"):
        form = [("image", ("x", png(name), "image/png"))] * 6
        client.post(LEARN, files=form, data={"label": name}, params={"wait": "published"})
    whole = client.get("/v1/models/model/memory").json()
    monkeypatch.setattr(views, "BYTES", 2000)
    part = client.get("/v1/models/model/memory").json()
    assert part["rows"] == whole["rows"][: len(part["rows"])]
    assert 1 <= len(part["rows"]) < len(whole["rows"])
    assert (part["kept"], part["classes"]) == (whole["kept"], whole["classes"])

    def size(each):
        return Image.open(io.BytesIO(client.get("/v1/models/model/memory.png", params={"each": each}).content)).size

    assert size(50) == (50 * 8, 3 * 8)
    monkeypatch.setattr(views, "PIXELS", 100 * 64)
    assert size(50) == (50 * 8, 2 * 8)
    monkeypatch.setattr(views, "PIXELS", 10 * 64)
    assert size(50) == (10 * 8, 1 * 8)


def test_labels_of_images_that_are_no_text_come_in_a_header(http):
    client = http(size=8)
    files = [("image", ("1.png", png("red"))), ("image", ("2.png", png("blue")))]
    answer = client.post(LEARN, files=files, headers={"Mnemon-Labels": "[3]"}, params={"wait": "published"})
    assert answer.json()["samples"] == 2
    assert client.get("/v1/models/model").json()["classes"] == [{"label": 3, "samples": 2}]
    twice = client.post(LEARN, files=files, data={"label": ["3", "3"]}, headers={"Mnemon-Labels": "[3]"})
    is_problem(twice, 422)
    is_problem(client.post(LEARN, files=files, headers={"Mnemon-Labels": "[1, 2, 3]"}), 422)
    assert client.get("/v1/models/model").json()["acknowledged"] == 2


def test_a_key_counts_once_and_belongs_to_one_body(http):
    client = http()
    first = client.post(LEARN, json={"x": X, "y": Y}, headers={"Idempotency-Key": "k"})
    again = client.post(LEARN, json={"x": X, "y": Y}, headers={"Idempotency-Key": "k"})
    assert (first.json()["position"], again.json()) == (4, {"position": 4, "samples": 4, "repeated": True})
    is_problem(client.post(LEARN, json={"x": X, "y": Y[::-1]}, headers={"Idempotency-Key": "k"}), 422)
    producer = {"Mnemon-Producer": "sensor", "Mnemon-Position": "7"}
    assert client.post(LEARN, json={"x": X, "y": Y}, headers=producer).json()["position"] == 8
    assert client.post(LEARN, json={"x": X, "y": Y}, headers=producer).json()["repeated"]
    assert client.get("/v1/models/model").json()["acknowledged"] == 8


def ndjson(client, *rows):
    content = "\n".join(json.dumps(row) for row in rows)
    return client.post(LEARN, content=content, headers={"Content-Type": "application/x-ndjson"})


def test_a_position_is_never_that_of_other_samples(http):
    client = http()
    old, new = ({"x": [float(i), 1.0], "y": "a", "id": f"row {i}"} for i in range(2))
    assert ndjson(client, old).json()["position"] == 1
    assert ndjson(client, new, old).json() == {"position": 2, "samples": 2, "repeated": False}
    is_problem(ndjson(client, new | {"id": "k"}, old | {"id": "k"}), 422)
    assert client.get("/v1/models/model").json()["acknowledged"] == 2
    for number, position in ((1, 3), (2, 4), (3, 5), (3, 5), (1, None)):
        headers = {"Mnemon-Producer": "p", "Mnemon-Position": str(number)}
        answer = client.post(LEARN, json={"x": X[:1], "y": Y[:1]}, headers=headers, params={"wait": "learned"})
        assert (answer.status_code, answer.json()["position"]) == (200, position)


def test_labels_that_begin_alike_are_told_apart(http):
    client = taught(http())
    kept = client.post(PREDICT, json={"x": X[:1]}, params={"keep": True}).json()["id"]
    label = "/photos/" + "a" * 100
    ask = "/v1/models/model/label"
    assert client.post(ask, json={"prediction": kept, "label": label}).json()["position"] == 21
    assert client.post(ask, json={"prediction": kept, "label": label}).json()["repeated"]
    is_problem(client.post(ask, json={"prediction": kept, "label": label + "b"}), 422)


def test_a_prediction_is_labelled_later_and_a_request_taken_back(http):
    client = taught(http())
    kept = client.post(PREDICT, json={"x": [[20.0, 20.0]]}, params={"keep": "true"}).json()["id"]
    answer = client.post("/v1/models/model/label", json={"prediction": kept, "label": "far"})
    assert answer.status_code == 202
    position = answer.json()["position"]
    client.post(PREDICT, json={"x": X}, params={"after": position})
    assert len(client.get("/v1/models/model").json()["classes"]) == 3
    assert client.post("/v1/models/model/retract", json={"position": position}).status_code == 202
    events = ""
    while "event: retracted" not in events:
        events = client.get("/v1/models/model/events", params={"follow": "false"}).text
    told = json.loads(events.partition("event: retracted\ndata: ")[2].partition("\n")[0])
    del told["time"]
    assert told == {"position": position, "samples": 1, "labels": [{"label": "far", "samples": 1}]}
    assert len(client.get("/v1/models/model").json()["classes"]) == 2
    is_problem(client.post("/v1/models/model/retract", json={"position": 3}), 410)
    is_problem(client.post("/v1/models/model/label", json={"prediction": "p-0", "label": "a"}), 410)


def test_curves_events_metrics_and_snapshot(http, tmp_path):
    client = taught(http())
    is_problem(client.get("/v1/models/model/snapshot"), 404)
    curves = client.get("/v1/models/model/curves").json()
    assert sum(point["predicted"] for point in curves["points"]) > 0
    assert 0 <= curves["accuracy"] <= 1
    events = client.get("/v1/models/model/events", params={"follow": "false"})
    assert events.headers["content-type"].startswith("text/event-stream")
    assert 'event: class\ndata: {"time"' in events.text
    _, second, third, *_ = re.findall(r"id: (.*)\n", events.text)
    later = client.get("/v1/models/model/events", params={"follow": "false"}, headers={"Last-Event-ID": second})
    assert f"id: {second}\n" not in later.text
    assert f"id: {third}\n" in later.text
    assert 'mnemon_samples_acknowledged_total{model="model"} 20.0' in client.get("/metrics").text
    client.models.get("model").learning._save()
    answer = client.get("/v1/models/model/snapshot")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        tar.extractall(tmp_path / "copy", filter="data")
    assert OnlineClassifier.load(tmp_path / "copy").n_seen_ == 20
    tag = {"If-None-Match": answer.headers["etag"]}
    assert client.get("/v1/models/model/snapshot", headers=tag).status_code == 304


def no_space(*args, **more):
    raise MnemonError("there is no space left on the disk.")


def test_a_snapshot_is_written_when_it_is_asked_for(http, tmp_path, monkeypatch):
    client = http()
    place = "/v1/models/model/snapshot"
    is_problem(client.post(place), 409)
    is_problem(client.get(place), 404)
    taught(client, 2)
    assert client.post(place).json() == {"learned": 8}
    taught(client, 3)
    with monkeypatch.context() as full:
        full.setattr(saving, "save", no_space)
        assert "no space" in is_problem(client.post(place), 507)
    answer = client.post(place)
    assert (answer.status_code, answer.json()) == (201, {"learned": 12})
    with tarfile.open(fileobj=io.BytesIO(client.get(place).content)) as tar:
        tar.extractall(tmp_path / "backup", filter="data")
    restored = http("backup", options={})
    assert restored.get("/v1/models/backup").json()["learned"] == 12
    assert (
        restored.post("/v1/models/backup/predict", json={"x": X}).json()["predictions"]
        == (client.post(PREDICT, json={"x": X}).json()["predictions"])
    )


def test_the_tag_of_a_snapshot_is_that_of_its_content(http):
    client = taught(http(recovery=0.0))
    folder, place = client.models.get("model").folder, "/v1/models/model/snapshot"
    wait_for(lambda: checkpoint.newest(folder) > 0)
    client.models.get("model").learning._save()
    position = client.post(LEARN, json={"x": X, "y": Y}, params={"wait": "published"}).json()["position"]
    client.models.close()
    again = http()
    before = again.get(place)
    assert again.get(place, headers={"If-None-Match": before.headers["etag"]}).status_code == 304
    again.post("/v1/models/model/retract", json={"position": position})
    wait_for(lambda: again.get(place).content != before.content)
    after = again.get(place, headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.headers["etag"] != before.headers["etag"]


def test_events_of_another_start_are_told_from_the_first(http):
    client = taught(http())
    place, quiet = "/v1/models/model/events", {"follow": "false"}

    def kinds(last):
        text = client.get(place, params=quiet, headers={"Last-Event-ID": last}).text
        return [line for line in text.splitlines() if line.startswith("id: ")]

    every = kinds("")
    last = every[-1].removeprefix("id: ")
    assert kinds(last) == []
    assert kinds("0123abcd-" + last.rpartition("-")[2]) == kinds("7") == every


def test_samples_that_no_server_has_learned_are_learned_without_being_asked_for(http, tmp_path):
    for name in ("behind", "done"):
        service = Service(tmp_path / "models" / name, options=SMALL, device="cpu")
        service.learn(X, Y)
        service.learning.wait(4, published=True).result()
        if name == "behind":
            with service.learning._turn:
                service.learn(X, Y)
                wait_for(lambda service=service: service.learning.state.backlog)
                service.learn(X, Y)  # stays in the journal
                closing = threading.Thread(target=service.close)
                closing.start()
                wait_for(lambda service=service: service.learning._closing)
            closing.join()
        service.close()
    models = http("models", options={}).models
    wait_for(lambda: "behind" in models.opened() and models.opened()["behind"].learning.state.learned == 12)
    assert list(models.opened()) == ["behind"]


def test_the_exam_tells_what_was_forgotten_also_after_a_restart(http, tmp_path):
    client = http("forgets", options=FORGETS)
    route = "/v1/models/forgets"
    assert client.get(f"{route}/curves").json()["exam"] is None

    def learn(x, y):
        client.post(f"{route}/learn", json={"x": x, "y": y}, params={"wait": "published"}).raise_for_status()

    taught_in_turn(learn)
    exam = client.get(f"{route}/curves").json()["exam"]
    assert {each["label"]: (each["samples"], each["best"]) for each in exam["classes"][:2]} == {
        "a": (12, 1.0),
        "b": (12, 1.0),
    }
    assert min(each["accuracy"] for each in exam["classes"][:2]) == 0  # a network without replay
    assert exam["accuracy"] == np.mean([each["accuracy"] for each in exam["classes"]])
    assert f'mnemon_exam_accuracy{{model="forgets"}} {exam["accuracy"]}' in client.get("/metrics").text
    status = client.get(route).json()  # those held out are samples of a class, too
    assert [each["samples"] for each in status["classes"]] == [120] * 4
    memory = client.get(f"{route}/memory").json()
    assert (memory["source"], memory["kept"]) == ("exam", exam["samples"])
    client.models.close()
    again = http("forgets", options={})
    assert again.get(f"{route}/curves").json()["exam"] == exam


def test_the_page_for_operators_names_the_metrics_there_are(http):
    client = taught(http(), 10)
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text(encoding="utf-8")
    there = {re.match(r"\w+", line)[0] for line in client.get("/metrics").text.splitlines() if line[0] != "#"}
    named = set(re.findall(r"mnemon_[a-z_]+", page))
    assert named == {name for name in there if not name.endswith("_created")}


def test_drift_is_in_the_status_and_in_the_metrics(http):
    client = http(options={"method": "slda", "half_life": "auto"})
    rng = np.random.default_rng(0)
    for a, b in ((0, 9), (0, 9), (9, 0)):
        x = np.concatenate([rng.normal(a, 1, (200, 2)), rng.normal(b, 1, (200, 2))]).tolist()
        body = {"x": x, "y": ["a"] * 200 + ["b"] * 200}
        client.post(LEARN, json=body, params={"wait": "published"}).raise_for_status()
    drifts = client.get("/v1/models/model").json()["drifts"]
    assert sorted(drift["label"] for drift in drifts) == ["a", "b"]
    assert all(800 < drift["when"] <= 1200 and 400 < drift["samples"] <= 600 for drift in drifts)
    assert 'mnemon_drifts_total{model="model"} 2.0' in client.get("/metrics").text


def test_a_model_without_an_exam_has_none(http):
    client = taught(http(options=SMALL | {"exam": 0}), 10)
    assert client.get("/v1/models/model/curves").json()["exam"] is None
    assert client.get("/v1/models/model/memory").json()["source"] == "memory"


def test_many_models_in_a_folder(http, tmp_path):
    for name in ("birds", "fish"):
        OnlineClassifier(backbone="mlp:width=8", memory_size=20, device="cpu").fit(X, Y).save(
            tmp_path / "models" / name
        )
    client = http("models", options={})
    assert client.get("/v1/models").json() == {"models": ["birds", "fish"]}
    assert (
        client.post("/v1/models/birds/learn", json={"x": X, "y": Y}, params={"wait": "learned"}).json()["position"] == 8
    )
    assert client.get("/v1/models/fish").json()["acknowledged"] == 4
    for name in ("cats", "..", "%2e%2e", "birds%2f..%2ffish", ".birds", "birds/"):
        assert client.get(f"/v1/models/{name}").status_code == 404


def npy_header(shape):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


JSON, NDJSON, NPY, TEXT = (
    {"Content-Type": kind} for kind in ("application/json", "application/x-ndjson", "application/x-npy", "text/plain")
)
LABELLED = {**NPY, "Mnemon-Labels": '["a"]'}
BAD = [
    ("learn", {"json": {"x": [[1.0]], "y": ["a"]}}, 422),  # another kind
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": []}}, 422),
    ("learn", {"json": {"x": [], "y": []}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0], [1.0]], "y": ["a", "b"]}}, 422),
    ("learn", {"json": {"x": [[1.0, "2"]], "y": ["a"]}}, 422),
    ("learn", {"json": {"x": [[1.0, None]], "y": ["a"]}}, 422),
    ("learn", {"json": {"x": [[1.0, 1e300]], "y": ["a"]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": [None]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": [1.5]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": [2**70]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": ["x" * 201]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": ["a"], "z": 1}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]] * 1001, "y": ["a"] * 1001}}, 413),
    ("learn", {"json": {"x": [{"a": 1}], "y": ["a"]}}, 422),
    ("learn", {"json": {"x": [[1.0, 2.0]], "y": ["a"], "id": ""}, }, 422),
    ("learn", {"content": b'{"x": [[1.0, NaN]], "y": ["a"]}', "headers": JSON}, 422),
    ("learn", {"content": b"[" * 100_000, "headers": JSON}, 422),
    ("learn", {"content": b'{"x": [[1' + b"0" * 10_000 + b', 1]], "y": ["a"]}', "headers": JSON}, 422),
    ("learn", {"content": b"\xff\xfe", "headers": JSON}, 422),
    ("learn", {"content": b"", "headers": JSON}, 422),
    ("learn", {"content": b'{"x": [[1.0, 2.0]], "y": ["a"]}', "headers": {**JSON, "Content-Encoding": "gzip"}}, 415),
    ("learn", {"content": b"x", "headers": TEXT}, 415),
    ("learn", {"content": b"x"}, 415),
    ("learn", {"content": b'{"x": [1, 2], "y": "a"}\n{"x": [1', "headers": NDJSON}, 422),
    ("learn", {"content": b'{"x": [1, 2]}', "headers": NDJSON}, 422),
    ("learn", {"content": npy(np.zeros((1, 2))), "headers": NPY}, 422),
    ("learn", {"content": npy(np.zeros((1, 2)))[:-1], "headers": LABELLED}, 422),
    ("learn", {"content": b"\x93NUMPY\x01\x00\x08\x00{'a': (1", "headers": LABELLED}, 422),
    ("learn", {"content": npy(np.array([{}], object)), "headers": LABELLED}, 422),
    ("learn", {"content": b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8'}", "headers": NPY}, 422),
    ("learn", {"content": b"\x93NUMPY\x03" + npy(np.zeros((1, 2)))[7:], "headers": LABELLED}, 422),
    ("learn", {"content": npy_header("(-1, -2)") + bytes(8), "headers": LABELLED}, 422),
    ("learn", {"content": npy_header("(True, 2)") + bytes(8), "headers": LABELLED}, 422),
    ("learn", {"content": npy_header("(1000000000000000000, 0)"), "headers": LABELLED}, 413),
    ("learn", {"content": npy(np.zeros((1, 2))), "headers": {**NPY, "Mnemon-Labels": '[["a"]]'}}, 422),
    ("learn", {"content": npy(np.zeros((1, 2))), "headers": {**NPY, "Mnemon-Labels": "a"}}, 422),
    ("learn", {"content": b"no image", "headers": {"Content-Type": "image/png"}}, 422),
    ("learn", {"files": {"image": b"no image"}}, 422),
    ("learn", {"files": {"image": png("red")}}, 422),  # a model of vectors
    ("learn", {"json": {"x": X, "y": Y}, "headers": {"Mnemon-Producer": "p"}}, 422),
    ("learn", {"json": {"x": X, "y": Y}, "headers": {"Mnemon-Producer": "p", "Mnemon-Position": "-1"}}, 422),
    ("learn", {"json": {"x": X, "y": Y}, "headers": {"Idempotency-Key": "x" * 201}}, 422),
    ("learn", {"json": {"x": X, "y": Y}, "params": {"wait": "for ever"}}, 422),
    ("predict", {"json": {"x": [[1.0]]}}, 422),
    ("predict", {"json": {"y": [[1.0]]}}, 422),
    ("predict", {"json": {"x": X}, "params": {"top": 0}}, 422),
    ("predict", {"json": {"x": X}, "params": {"after": -1}}, 422),
    ("label", {"json": {"prediction": 1, "label": "a"}}, 422),
    ("label", {"content": b"{}", "headers": TEXT}, 415),
    ("retract", {"json": {"position": "1"}}, 422),
    ("retract", {"json": {"position": 0}}, 410),
    ("retract", {"json": {"position": 2**80}}, 410),
]  # fmt: skip


def test_bad_input_is_a_sentence_and_changes_nothing(http, monkeypatch):
    client = taught(http(), 1)
    before = client.get("/v1/models/model").json()
    for route, given, status in BAD:
        is_problem(client.post(f"/v1/models/model/{route}", **given), status)
    is_problem(client.post("/v1/models/nobody/learn", json={"x": X, "y": Y}), 404)
    is_problem(client.get("/v1/models/model/memory", params={"limit": "all"}), 422)
    is_problem(client.get("/nothing"), 404)
    is_problem(client.put(LEARN), 405)
    assert client.get("/v1/models/model").json() == before


def test_a_mistake_of_the_server_is_a_sentence_too(http, monkeypatch):
    client = taught(http())

    def mistaken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(views, "curves", mistaken)
    with pytest.raises(ZeroDivisionError):  # uvicorn logs it
        client.get("/v1/models/model/curves")
    quiet = TestClient(client.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
    assert "log" in is_problem(quiet.get("/v1/models/model/curves", headers=client.headers), 500)


def test_any_text_is_an_id(http):
    client = http()
    for given in ("ключ", "a b", "\n"):
        for repeated in (False, True):
            answer = client.post(LEARN, json={"x": X, "y": Y}, params={"id": given})
            assert (answer.status_code, answer.json()["repeated"]) == (202, repeated)
    assert client.post(LEARN, json={"x": X, "y": Y, "id": "ключ"}).status_code == 422  # the content is another one
    is_problem(client.post(LEARN, json={"x": X, "y": Y}, params={"id": "a"}, headers={"Idempotency-Key": "b"}), 422)


def test_nobody_waits_for_a_model_that_failed(http):
    client = taught(http())
    learning = client.models.get("model").learning
    waits = learning.wait(10**6, published=True)
    learning._fail(MnemonError("out of order."))
    with pytest.raises(MnemonError, match="out of order"):
        waits.result(10)
    is_problem(client.post(PREDICT, json={"x": X}, params={"after": 10**6}), 503)
    assert client.post(PREDICT, json={"x": X}, params={"after": 20}).status_code == 200


def test_what_the_server_writes_is_its_owners_alone(http, tmp_path):
    client = taught(http())
    client.models.close()
    files = [path for path in (tmp_path / "model").iterdir() if path.suffix in (".json", ".safetensors", ".sqlite")]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_bodies_images_and_times_have_limits(http, monkeypatch):
    client = http(size=8)
    is_problem(client.post(LEARN, content=b"x" * (16 * 2**20 + 1)), 413)

    def parts():  # no length is announced
        for _ in range(17):
            yield b"x" * 2**20

    is_problem(client.post(LEARN, content=parts(), headers={"Content-Type": "application/json"}), 413)
    is_problem(client.post(LEARN, content=png("red", (5100, 5000)), headers={"Content-Type": "image/png"}), 422)
    monkeypatch.setattr("mnemon.serve.pixels.TOGETHER", 100_000)
    few, many = ([("image", ("x", png("red", (200, 200)), "image/png"))] * n for n in (2, 3))
    assert client.post(LEARN, files=few, data={"label": "a"}).status_code == 202
    is_problem(client.post(LEARN, files=many, data={"label": "a"}), 413)
    scaled = [("image", ("x", png("red", (800, 800), "JPEG"), "image/jpeg"))] * 3  # read at an eighth of its size
    assert client.post(LEARN, files=scaled, data={"label": "a"}).status_code == 202
    monkeypatch.setattr("mnemon.serve.http.app.WAIT", 0.05)
    is_problem(client.post(PREDICT, json={"x": X}, params={"after": 10**6}), 504)


def test_few_images_are_decoded_at_once(http, monkeypatch):
    """Each takes up to a hundred megabytes meanwhile."""
    monkeypatch.setattr("mnemon.serve.http.app.READERS", 2)
    client, free = http(size=8), threading.Semaphore(2)

    def decoded(*_):
        assert free.acquire(blocking=False)
        time.sleep(0.02)
        free.release()
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr("mnemon.serve.pixels.decoded", decoded)
    with ThreadPoolExecutor(8) as pool:
        given = {"content": b"", "headers": {"Content-Type": "image/png"}, "params": {"label": "a"}}
        answers = list(pool.map(lambda _: client.post(LEARN, **given).status_code, range(16)))
    assert answers == [202] * 16


LONG = "x" * 20_000


@pytest.mark.parametrize(
    "body",
    [
        Body(wire.JSON, json.dumps({"x": [[LONG] + [""] * 900]}).encode()),
        Body(wire.JSON, json.dumps({"x": [LONG] + [""] * 900}).encode()),
        Body(wire.NDJSON, json.dumps({"x": [LONG] + [""] * 900}).encode()),
        Body(wire.NPY, npy_header("(2000000, 0)"), labels='["a"]'),
        Body(wire.NPY, npy(np.zeros((1, 2))), labels=json.dumps([[LONG] + [""] * 900])),
    ],
)
def test_a_small_body_takes_little_memory(body):
    tracemalloc.start()
    with pytest.raises(MnemonError):
        wire.samples(body, None, 32) if body.labels is None else wire.learn_requests(body, None, 32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_pressure_is_told_with_a_time_to_come_again(http):
    client = http(backlog=100)
    turn = client.models._turn
    while turn.acquire(blocking=False):  # nothing is learned meanwhile
        pass
    answers = [client.post(LEARN, json={"x": X, "y": Y}) for _ in range(10)]
    assert answers[0].status_code == 202
    is_problem(answers[-1], 503)
    assert int(answers[-1].headers["Retry-After"]) >= 1
    model = client.models.get("model")
    with model.journal._db_lock:
        model.journal._db.execute("PRAGMA max_page_count = 1")
    model._backlog = 10**9
    answer = client.post(LEARN, json={"x": X * 200, "y": Y * 200})
    is_problem(answer, 507)
    assert answer.headers["Retry-After"]
    with model.journal._db_lock:
        model.journal._db.execute("PRAGMA max_page_count = 100000")
        model.journal._db.execute("PRAGMA query_only = ON")
    is_problem(client.post(LEARN, json={"x": X, "y": Y}), 503)
    is_problem(client.get("/healthz"), 503)
    turn.release()
