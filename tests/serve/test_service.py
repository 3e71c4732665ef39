"""A served model: what is acknowledged is learned exactly once, and a crash at any moment changes no byte."""

import contextlib
import itertools
import json
import shutil
import threading
import time
import warnings
import zlib

import numpy as np
import pytest

from folder_images import make
from mnemon import OnlineClassifier, checkpoint
from mnemon.data import channels_first
from mnemon.errors import Diverged, MnemonError
from mnemon.estimator import saving
from mnemon.estimator.served import JOURNAL
from mnemon.own_data.fit import fit
from mnemon.serve import journal as journals
from mnemon.serve import learning, schedule, state
from mnemon.serve.events import CUT, KeyReused, NoSpace
from mnemon.serve.http.models import Models
from mnemon.serve.journal import Journal
from mnemon.serve.learning import OutOfJournal
from mnemon.serve.samples import Samples, decode, encode
from mnemon.serve.service import Busy, Gone, NothingLearned, Service
from mnemon.serve.state import State
from processes import wait_for

SMALL = {"backbone": "mlp:width=16", "memory_size": 40}
METHODS = pytest.mark.parametrize("options", [SMALL, {"method": "slda"}], ids=["network", "slda"])


@pytest.fixture
def serve(tmp_path):
    """Services that end with the test; `crash` leaves one as a SIGKILL would and copies its folder."""
    running, numbers = [], itertools.count()

    def start(folder="model", **more):
        more.setdefault("options", {} if (tmp_path / folder).exists() else SMALL)
        running.append(Service(tmp_path / folder, device="cpu", **more))
        return running[-1]

    def crash(service):
        copied = tmp_path / f"after crash {next(numbers)}"
        copied.mkdir()
        with checkpoint.alone(service.folder, saving.LOCK), service.journal._db_lock:  # all files at one moment
            for path in service.folder.iterdir():
                if path.name.startswith(("journal", "0")):
                    shutil.copy(path, copied / path.name)
        return copied.name

    start.crash = crash
    yield start
    for service in running:
        service.close()


def samples(n, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(n, 6)) + 3 * y[:, None]).astype(np.float32), [f"class {c}" for c in y]


def settled(service):
    service.learning.wait(service.journal.position, published=True).result(60)
    return service


def learned_bytes(service):
    """All that the model learned, byte for byte."""
    return model_bytes(service.learning.state.classifier._model)


def model_bytes(model):
    content = {name: tensor.cpu().numpy().tobytes() for name, tensor in model.learner.state().items()}
    return content | {"labels": model.labels.labels, "n": model.n_seen}


def cuts(service):
    return [json.loads(event.payload)["to"] for event in service.journal.events(kind=CUT)]


def test_samples_are_acknowledged_learned_and_published_as_partial_fit_would(serve):
    service = serve()
    with pytest.raises(NothingLearned):
        service.predict(samples(1)[0])
    x, y = samples(50)
    acks = [service.learn(x[i : i + 5], y[i : i + 5]) for i in range(0, 50, 5)]
    assert [ack.position for ack in acks] == list(range(5, 51, 5))
    settled(service)
    by_hand = OnlineClassifier(**SMALL, device="cpu")
    for start, end in itertools.pairwise([0, *cuts(service)]):
        by_hand.partial_fit(x[start:end], y[start:end])
    published, probabilities, _ = service.predict(x)
    assert published.learned == 50
    np.testing.assert_array_equal(probabilities, by_hand.predict_proba(x))
    assert published.labels == by_hand.classes_.tolist()


def replayed(service, options):
    """A model that learns all samples of the journal, chunk for chunk, and never crashes."""
    drawn = [decode(event.payload) for event in service.journal.events(kind="samples")]
    x, y = np.concatenate([each.x for each in drawn]), [label for each in drawn for label in each.y]
    model = OnlineClassifier(**options, device="cpu")
    for start, end in itertools.pairwise([0, *cuts(service)]):
        model.partial_fit(x[start:end], y[start:end])
    return model_bytes(model._model)


@METHODS
def test_a_crash_at_any_moment_changes_no_byte(serve, options, monkeypatch):
    monkeypatch.setattr(learning, "CHUNK", 0.005)  # many cuts
    monkeypatch.setattr(Journal, "prune", lambda self, seq: None)  # the whole journal, to be replayed
    service = serve("whole", options=options, recovery=0.05)
    crashed = []
    for i in range(12):
        service.learn(*samples(4 + i, i), key=b"%d" % i)
        if i % 3 == 2:
            crashed.append(serve.crash(service))
    crashed.append(serve.crash(settled(service)))
    for folder in crashed:
        again = serve(folder, recovery=0.05)
        for i in range(12):  # clients that heard nothing send everything again
            again.learn(*samples(4 + i, i), key=b"%d" % i)
        settled(again)
        assert again.journal.position == sum(4 + i for i in range(12))
        assert learned_bytes(again) == replayed(again, options)
    assert learned_bytes(again) == learned_bytes(service)


@pytest.fixture
def saved_often(monkeypatch):
    """A snapshot after each chunk."""
    monkeypatch.setattr(schedule, "SAVE_SHARE", 1)
    return {"recovery": 0.0}


def test_snapshots_let_old_events_go_and_a_damaged_one_is_passed_over(serve, caplog, saved_often):
    service = serve(**saved_often)
    for i in range(8):
        service.learn(*samples(10, i))
        settled(service)
    wait_for(lambda: service.journal.pruned > 5)
    assert next(event.position for event in service.journal.events(kind="samples")) > 10
    copied = serve.crash(service)
    newest = checkpoint.newest(service.folder.parent / copied)
    path = service.folder.parent / copied / f"{newest:010d}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    again = serve(copied)
    assert "is passed over" in caplog.text
    assert learned_bytes(again) == learned_bytes(service)
    again.learn(*samples(3))
    settled(again)
    again.close()
    assert learned_bytes(serve(copied)) == learned_bytes(again)


def test_a_clean_stop_leaves_a_model_that_loads_and_goes_on(serve, tmp_path):
    service = settled_with(serve(), 30)
    service.close()
    loaded = OnlineClassifier.load(service.folder)
    assert loaded.n_seen_ == 30
    loaded.partial_fit(*samples(5, 9))
    loaded.save(service.folder)
    again = serve()  # what was learned elsewhere stays, what is in the journal is not learned again
    assert again.learning.state.classifier.n_seen_ == 35
    again.learn(*samples(10, 3))
    assert settled(again).learning.state.classifier.n_seen_ == 45


def test_fit_goes_on_with_a_served_model_and_the_server_with_what_fit_left(serve, tmp_path):
    service = serve(options={"memory_size": 40, "backbone": "mlp:width=8"}, size=8)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    service.learn(channels_first(pixels), list("ababab"))
    settled(service).close()
    photos = make(tmp_path / "photos", each=5)
    fitted = fit(photos, service.folder, device="cpu").learned
    assert fitted > 0
    again = serve()
    assert again.learning.state.classifier.n_seen_ == 6 + fitted
    again.learn(channels_first(pixels), list("cccccc"))
    settled(again)
    assert {"a", "b", "c", "red"} <= set(again.published.labels)
    again.close()
    assert fit(photos, service.folder, device="cpu").learned == 0  # it knows its images by their content
    assert OnlineClassifier.load(service.folder).n_seen_ == 12 + fitted


def settled_with(service, n):
    service.learn(*samples(n))
    return settled(service)


def test_loading_says_if_acknowledged_samples_are_not_learned_yet(serve, tmp_path, monkeypatch):
    service = settled_with(serve(), 30)
    service.learning._save()
    with pytest.warns(UserWarning, match="is being served"):
        OnlineClassifier.load(service.folder)
    service.learning._turn.acquire()  # nothing is learned from here on
    service.learn(*samples(7))
    copied = serve.crash(service)
    service.learning._turn.release()
    with pytest.warns(UserWarning, match="7 samples that were acknowledged"):
        OnlineClassifier.load(tmp_path / copied)
    settled(serve(copied)).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert OnlineClassifier.load(tmp_path / copied).n_seen_ == 37


def test_the_folder_is_one_processes_and_fit_says_whose(serve, tmp_path):
    service = serve()
    with pytest.raises(MnemonError, match=r"mnemon serve \(process \d+\) is fitting or serving"):
        Service(service.folder)
    (tmp_path / "images" / "a").mkdir(parents=True)
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "a" / "1.png")
    with pytest.raises(MnemonError, match="mnemon serve"):
        fit(tmp_path / "images", service.folder)


def test_bad_samples_change_nothing(serve):
    service = serve()
    for x, y, sentence in [
        (np.zeros((0, 3)), [], "0 sample"),
        ([[1.0, float("nan")]], ["a"], "not finite"),
        ([["a"]], ["a"], "text"),
        ([[1.0], [2.0]], ["a"], "2 samples and 1 labels"),
        ([[1.0]], ["x" * 201], "200 characters"),
        ([[1.0]], [None], "label"),
        ([[1.0]], ["\ud800"], "text"),
        ([{"a": 1.0}, {"b": 1.0}], ["u", "v"], "missing"),
    ]:
        with pytest.raises(MnemonError, match=sentence):
            service.learn(x, y)
    assert service.journal.position == 0
    assert service.kind is None
    settled_with(service, 10)
    for x, y, sentence in [([[1.0]], ["a"], "6"), ([{"a": 1.0}], ["a"], "not features with names")]:
        with pytest.raises(MnemonError, match=sentence):
            service.learn(x, y)
    assert service.journal.position == 10


def test_the_first_request_says_of_what_kind_all_are_before_any_is_learned(serve):
    service = serve()
    service.learning._turn.acquire()
    try:
        service.learn([{"a": 1, "b": 2.5}], ["u"])
        with pytest.raises(MnemonError, match="missing"):
            service.learn([{"a": 1}], ["u"])
        with pytest.raises(MnemonError, match="3 features"):
            service.learn([[1.0, 2.0, 3.0]], ["u"])
        service.learn([{"b": 2, "a": 0}], ["v"])
        copied = serve.crash(service)
    finally:
        service.learning._turn.release()
    again = serve(copied)
    with pytest.raises(MnemonError, match="missing"):
        again.learn([{"a": 1}], ["u"])
    assert settled(again).predict([{"b": 2, "a": 0}])[0].labels == ["u", "v"]


def test_of_two_first_requests_of_different_kinds_one_is_taken(serve, monkeypatch):
    service, tried, go_on = serve(), threading.Event(), threading.Event()
    trying, told = service._try, []

    def wait_and_try(samples):
        tried.set()
        go_on.wait(30)
        trying(samples)

    def second():
        with pytest.raises(MnemonError, match="3 features"):
            service.learn([[1.0, 2.0, 3.0]], ["b"])
        told.append("refused")

    monkeypatch.setattr(service, "_try", wait_and_try)
    threads = [threading.Thread(target=service.learn, args=([[1.0, 2.0]], ["a"])), threading.Thread(target=second)]
    threads[0].start()
    tried.wait(30)
    threads[1].start()
    time.sleep(0.05)  # it has come, and waits
    go_on.set()
    for each in threads:
        each.join()
    assert told == ["refused"]
    assert settled(service).labels == ["a"]


def test_options_count_until_something_is_acknowledged_and_are_refused_later(serve):
    serve(options={}).close()
    service = serve(options={"method": "slda", "memory_size": 7}, size=64)
    assert service.size == 64
    assert service._fresh("cpu")().memory_size == 7
    service.close()
    service = serve(options={"method": "slda"})  # as it was begun
    service.learning._turn.acquire()  # nothing is learned, so there will be no snapshot
    service.learn(*samples(3))
    crashed = serve.crash(service)
    service.learning._turn.release()
    for more, sentence in [
        ({"options": {"memory_size": 8}}, "begun with memory_size 7, not 8"),
        ({"options": {"lr": 0.5}}, "begun with lr"),
        ({"options": {}, "size": 32}, "begun with size 64, not 32"),
    ]:
        with pytest.raises(MnemonError, match=sentence):
            serve(crashed, **more)
    assert settled(serve(crashed, options={"memory_size": 7}, size=64)).learning.state.method == "slda"


def test_another_size_than_that_of_the_images_is_refused(serve, tmp_path):
    service = serve(options={"method": "slda"}, size=32)
    service.learn(*photos(3))
    settled(service).close()
    with pytest.raises(MnemonError, match="size 32, not 64"):
        serve(size=64)
    with pytest.raises(MnemonError, match="so the option size cannot be given"):
        Models(tmp_path, options={}, size=64)


def test_options_that_no_model_can_be_made_with_are_refused_before_anything_is_written(serve, tmp_path):
    for options, sentence in [
        ({"methd": "er"}, "no parameter"),
        ({"method": "err"}, "unknown method"),
        ({"lr": -1}, "lr"),
    ]:
        with pytest.raises(MnemonError, match=sentence):
            Service(tmp_path / "new", options=options)
        assert not (tmp_path / "new").exists()
    service = serve(options={"backbone": "resnet18"})
    with pytest.raises(MnemonError):  # vectors
        service.learn(*samples(3))
    assert service.journal.position == 0
    service.close()
    assert (
        serve(options={"backbone": "mlp"}).learn(*samples(3)).position == 3
    )  # nothing was acknowledged with the other


@pytest.mark.parametrize("restart", [False, True])
def test_a_chunk_that_diverges_is_learned_without_the_requests_at_fault(serve, restart, monkeypatch):
    learn = state.kinds.learn

    def diverge(classifier, chunk):
        if any("bad" in each.y for each in chunk):
            raise Diverged("training diverged.")
        learn(classifier, chunk)

    monkeypatch.setattr(state.kinds, "learn", diverge)
    service = settled_with(serve(), 10)
    service.learning._turn.acquire()
    good, bad = samples(4, 1), (samples(2, 2)[0], ["bad", "bad"])
    positions = [service.learn(*each).position for each in (good, bad, good, bad)]
    service.learning._turn.release()
    settled(service)
    assert service.learning.state.classifier.n_seen_ == 18
    assert set(service.learning.state.refused) == {positions[1], positions[3]}
    assert service.published.learned == positions[-1] == 22
    if restart:
        monkeypatch.setattr(state.kinds, "learn", learn)  # what was refused stays so, also where it would not diverge
        again = serve(serve.crash(service))
        assert learned_bytes(again) == learned_bytes(service)
        assert set(again.learning.state.refused) == {positions[1], positions[3]}


@pytest.mark.parametrize("options", [SMALL, {"method": "slda", "exam": 0}], ids=["network", "slda"])
def test_a_retracted_request_is_as_if_it_had_never_come(serve, options):
    service = serve(options=options)
    for i in range(4):
        service.learn(*samples(10, i))
        settled(service)
    service.retract(20).result()
    service.retract(20).result()  # twice is once
    without = serve("without", options=options)
    for i in (0, 2, 3):
        without.learn(*samples(10, i))
        settled(without)
    wait_for(lambda: service.learning.state.classifier.n_seen_ == 30 and service.published.counts)
    if options is SMALL:  # learned again without it: the same bytes
        assert learned_bytes(service) == learned_bytes(without)
    else:  # subtracted: the same numbers up to rounding
        x = samples(20, 7)[0]
        np.testing.assert_allclose(service.predict(x)[1], without.predict(x)[1], atol=1e-5)
    copied = serve.crash(service)
    assert learned_bytes(serve(copied)) == learned_bytes(service)
    service.learn(*samples(10, 5))
    settled(service)
    assert service.published.learned == 50
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)
    with pytest.raises(OutOfJournal):
        service.retract(19).result()


def test_many_retractions_teach_a_network_again_once(serve, monkeypatch):
    service, without = serve(), serve("without")
    for i in range(8):
        service.learn(*samples(10, i))
        settled(service)
    for i in (0, 1, 7):
        without.learn(*samples(10, i))
        settled(without)
    follow, times = State.follow, []

    def counted(self, journal, after):
        times.append(after)
        follow(self, journal, after)

    monkeypatch.setattr(State, "follow", counted)
    monkeypatch.setattr(learning, "PAUSE", 60)
    monkeypatch.setattr(learning, "TOGETHER", 5)
    for position in (30, 40, 40, 50, 60, 70):  # one after the other
        service.retract(position).result()
    wait_for(lambda: service.learning.state.classifier.n_seen_ == 30)
    assert len(times) == 1
    assert learned_bytes(service) == learned_bytes(without)
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)


def test_samples_that_come_while_a_network_is_taught_again_are_learned_too(serve, monkeypatch):
    service = serve()
    for i in range(4):
        service.learn(*samples(10, i))
        settled(service)
    follow, late = State.follow, iter(range(4, 7))

    def and_traffic(self, journal, after):
        service.learn(*samples(10, next(late)))  # before the journal is read
        follow(self, journal, after)
        service.learn(*samples(10, next(late)))  # behind what was read of it

    monkeypatch.setattr(State, "follow", and_traffic)
    service.retract(20).result()
    wait_for(lambda: service.published.learned == 60 or service.learning.failed)
    monkeypatch.undo()
    assert service.learning.failed is None
    service.learn(*samples(10, next(late)))
    settled(service)
    drawn = [decode(event.payload) for event in service.journal.events(kind="samples")]
    whole = Samples(np.concatenate([each.x for each in drawn]), [label for each in drawn for label in each.y])
    model = OnlineClassifier(**SMALL, device="cpu")
    for start, end in itertools.pairwise([0, *cuts(service)]):
        chunk = whole.part(start, 10) if start == 10 else whole.part(start, end)
        if len(chunk.y):
            model.partial_fit(chunk.x, chunk.y)
    assert learned_bytes(service) == model_bytes(model._model)
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)


def test_a_retraction_under_traffic_ends_as_if_the_samples_had_never_come(serve):
    service = serve()
    for i in range(40):
        service.learn(*samples(10, i))
    ended, numbers = threading.Event(), itertools.count(40)

    def traffic():
        while not ended.wait(0.002):
            service.learn(*samples(10, next(numbers)))

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        for position in (100, 200, 300):
            service.retract(position).result()
            wait_for(lambda position=position: service.learning.failed or position in service.learning.state.retracted)
    finally:
        ended.set()
        thread.join()
    assert service.learning.failed is None
    settled(service)
    assert service.learning.state.classifier.n_seen_ == service.journal.position - 30
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)


SUBTRACTS = {"method": "slda", "exam": 0}


def test_a_second_retraction_after_a_restart_subtracts_nothing(serve):
    service = serve(options=SUBTRACTS)
    first = service.learn(*samples(10, 0)).position
    service.learn(*samples(10, 1))
    settled(service)
    service.retract(first).result()
    service.learn(*samples(10, 2))
    settled(service).close()  # with a snapshot
    again = serve()
    before = learned_bytes(again)
    again.retract(first).result()
    again.learn(*samples(10, 3))
    settled(again)
    assert again.learning.state.classifier.n_seen_ == 30
    assert learned_bytes(serve(serve.crash(again))) == learned_bytes(again) != before


def test_what_was_retracted_while_it_waited_is_not_learned_after_a_restart(serve):
    service = serve(options=SUBTRACTS)
    service.learn(*samples(10, 0))
    settled(service)
    with service.learning._turn:
        service.learn(*samples(5, 1))
        wait_for(lambda: len(cuts(service)) == 2)  # the learner has begun a chunk, and waits for its turn
        secret = service.learn(samples(5, 2)[0], ["secret"] * 5).position
        answer = service.retract(secret)
        closing = threading.Thread(target=service.close)
        closing.start()
        wait_for(lambda: service.learning._closing)
    closing.join()
    answer.result()
    again = settled(serve())
    assert "secret" not in again.published.labels
    assert again.learning.state.classifier.n_seen_ == 15


def test_what_waits_can_be_retracted_and_may_then_be_of_another_kind(serve):
    service = serve()
    service.learning._turn.acquire()
    try:
        first = service.learn(*samples(5)).position
        second = service.learn(*samples(3)).position
    finally:
        service.learning._turn.release()
    service.retract(second).result()
    service.retract(first).result()
    wait_for(lambda: service.kind is None)
    service.learn([[1.0, 2.0]], ["a"])
    assert settled(service).learning.state.classifier.n_seen_ == 1
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)


def photos(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return (rng.integers(0, 120, (n, 16, 16, 1)) + 120 * y[:, None, None, None]).astype(np.uint8), [
        f"photo {c}" for c in y
    ]


def test_the_only_image_can_be_taken_back_and_something_else_be_taught(serve):
    service = serve(options={})  # auto: statistics for images, a network for vectors
    first = service.learn(*photos(1)).position
    settled(service)
    service.retract(first).result()
    wait_for(lambda: service.kind is None)
    service.learn(*samples(12))
    assert settled(service).learning.state.method == "hybrid"
    again = serve(serve.crash(service), options={})
    assert learned_bytes(again) == learned_bytes(service)


def test_after_a_crash_what_came_after_all_was_taken_back_is_there(serve):
    service = serve(options={})
    first = service.learn(*samples(3)).position
    settled(service)
    service.retract(first).result()
    wait_for(lambda: service.kind is None)
    service.learn(*photos(20))
    assert settled(service).learning.state.method == "slda"
    again = serve(serve.crash(service), options={})
    assert (again.learning.state.method, again.learning.state.refused) == ("slda", {})
    assert learned_bytes(again) == learned_bytes(service)


def test_a_model_that_has_little_left_still_predicts_and_starts(serve):
    service = serve(options={})
    service.learn(*photos(10))
    second = service.learn(*photos(5, 1)).position
    settled(service)
    service.retract(second).result()
    wait_for(lambda: service.learning.state.classifier.n_seen_ == 10)
    assert len(service.predict(photos(4, 2)[0])[1]) == 4
    again = serve(serve.crash(service), options={})
    assert len(again.predict(photos(4, 2)[0])[1]) == 4


def test_samples_before_the_oldest_snapshot_cannot_be_retracted_from_a_network(serve, saved_often):
    service = serve(**saved_often)
    for i in range(5):
        service.learn(*samples(10, i))
        settled(service)
    before = learned_bytes(service)
    with pytest.raises(OutOfJournal):
        service.retract(10).result()
    assert learned_bytes(service) == before
    service.retract(50).result()
    wait_for(lambda: service.learning.state.classifier.n_seen_ == 40)
    crashed = serve(serve.crash(service))
    assert learned_bytes(crashed) == learned_bytes(service)


def test_a_prediction_is_labelled_later_once_and_after_a_restart(serve):
    service = settled_with(serve(), 10)
    x = samples(1, 4)[0]
    service.journal.keep("p-1", encode(Samples(service.predict(x)[2].x, []))).result()
    again = serve(serve.crash(service))
    ack = again.label("p-1", "new").result()[0]
    assert again.label("p-1", "new").result()[0].position == ack.position == 11
    with pytest.raises(KeyReused):
        again.label("p-1", "other").result()
    with pytest.raises(Gone):
        again.label("p-2", "new")
    assert "new" in settled(again).published.labels


def test_more_than_may_wait_is_turned_away_with_a_time(serve):
    service = serve(backlog=1000)
    service.learning._turn.acquire()
    try:
        with contextlib.suppress(Busy):
            for i in range(300):
                service.learn(*samples(20, i))
        with pytest.raises(Busy) as busy:
            service.learn(*samples(20))
        assert busy.value.retry_after >= 1
    finally:
        service.learning._turn.release()
    acknowledged = service.journal.position
    settled(service)
    assert service.learning.state.classifier.n_seen_ == acknowledged
    service.learn(*samples(3))


def test_a_full_disk_refuses_samples_and_learning_waits_for_space(serve, monkeypatch):
    monkeypatch.setattr(learning, "RETRY", 0.01)
    service = settled_with(serve(), 10)

    def limit(pages):
        with service.journal._db_lock:
            service.journal._db.execute(f"PRAGMA max_page_count = {pages}")

    limit(1)
    with pytest.raises(NoSpace):
        service.learn(*samples(1000))
    assert service.predict(samples(2)[0])[0].learned == 10
    limit(10**6)
    service.learn(*samples(1000))
    assert settled(service).learning.state.classifier.n_seen_ == 1010


def test_after_a_failed_flush_predictions_go_on_and_nothing_is_taken(serve):
    service = settled_with(serve(), 10)
    with service.journal._db_lock:
        service.journal._db.execute("PRAGMA query_only = ON")
    with pytest.raises(MnemonError):
        service.learn(*samples(3))
    with pytest.raises(MnemonError):
        service.learn(*samples(3))
    assert len(service.predict(samples(2)[0])[1]) == 2


def test_a_journal_older_than_a_snapshot_stops_the_start(serve, tmp_path):
    service = settled_with(serve(), 10)
    service.close()
    old = (service.folder / JOURNAL).read_bytes()
    settled_with(serve(), 10).close()
    (service.folder / JOURNAL).write_bytes(old)
    with pytest.raises(MnemonError, match="is damaged"):
        serve()
    (service.folder / JOURNAL).unlink()  # moved away: the snapshot alone
    assert serve().learning.state.classifier.n_seen_ == 20


def test_a_missing_event_stops_the_start(serve, tmp_path):
    service = serve()
    for i in range(4):
        service.learn(*samples(10, i))
    settled(service)
    folder = tmp_path / serve.crash(service)
    journal = Journal(folder / JOURNAL)
    with journal._db_lock:
        journal._db.execute("DELETE FROM events WHERE position = 20 AND kind = 'samples'")
    journal.close()
    with pytest.raises(MnemonError, match="not in it"):
        serve(folder.name)


def test_images_are_learned_as_pixels(serve):
    service = serve(options={"memory_size": 20, "backbone": "mlp:width=8"})
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    service.learn(channels_first(x), list("ababab"))
    by_hand = OnlineClassifier(memory_size=20, backbone="mlp:width=8", device="cpu").partial_fit(
        channels_first(x), list("ababab")
    )
    settled(service)
    np.testing.assert_array_equal(service.predict(channels_first(x))[1], by_hand.predict_proba(channels_first(x)))


def test_samples_come_back_from_bytes_as_they_were():
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    found = decode(encode(Samples(x, [True, 1, "é", 3, 4, 5])))
    np.testing.assert_array_equal(found.x, x)
    assert list(map(type, found.y)) == [bool, int, str, int, int, int]
    rows = [{"a": 0.1, "b": -1e-300}]
    assert decode(encode(Samples(rows, ["x"]))) == Samples(rows, ["x"])
    assert zlib.crc32(encode(Samples(rows, ["x"])))


def test_the_memory_of_keys_outlives_the_events(serve, monkeypatch, saved_often):
    monkeypatch.setattr(journals, "STEP", 3)
    service = serve(**saved_often)
    for i in range(6):
        service.learn(*samples(10, i), key=b"%d" % i)
        settled(service)
    again = serve(serve.crash(service))
    assert again.learn(*samples(10, 0), key=b"0") == (10, 10, True, True)


def test_what_the_model_warns_of_is_one_message(serve, caplog):
    service = serve(options=SMALL | {"memory_size": 3})
    x = np.float32([[c, -c] for c in range(8)])
    for _ in range(2):
        for c in range(8):
            service.learn(x[c : c + 1], [f"class {c}"])
            settled(service)
    (said,) = [message for message in caplog.messages if "rows in the memory" in message]
    assert said.startswith("model: there are 4 classes and 3 rows in the memory")
    told = [event["reason"] for event in service.learning.log.after(0) if event["event"] == "warned"]
    assert told == [said.removeprefix("model: ")]
    near = np.array([[1e9 + i, i] for i in range(5)])  # what a request may warn of
    service.learn(near, ["far away"] * 5)
    service.predict(near)
    settled(service)
    assert sum("varies by less than float32" in message for message in caplog.messages) == 1


def test_every_drift_is_told_and_is_in_the_state(serve, caplog):
    rng = np.random.default_rng(0)

    def day(centres):
        y = rng.permutation(np.repeat([1, 2, 3], 200))
        return (rng.normal(size=(600, 2)) + np.array([centres[c] for c in y])).astype(np.float32), y.tolist()

    service = serve(options={"method": "slda", "half_life": "auto"})
    first, swapped = {1: (0, 9), 2: (9, 0), 3: (-9, -9)}, {1: (9, 0), 2: (0, 9), 3: (-9, -9)}
    for centres in (first, first, swapped, swapped, swapped, first, first):
        service.learn(*day(centres))
        settled(service)
    drifts = service.published.drifts
    assert [drift.classes[0] for drift in drifts].count(1) == [drift.classes[0] for drift in drifts].count(2) == 2
    assert {drift.classes[0] for drift in drifts} == {1, 2}
    told = [event["reason"] for event in service.learning.log.after(0) if event["event"] == "warned"]
    for drift in drifts:  # labels that are numbers, and a class that changes for the second time, are other events
        named = f"{drift.classes[0]} (after {drift.samples:,} samples)"
        assert sum(named in reason for reason in told) == sum(named in message for message in caplog.messages) == 1


@METHODS
def test_retracted_samples_leave_the_disk(serve, options, monkeypatch):
    service = serve(options=options)
    service.learn(*samples(40))
    secret, labels = samples(3, 7)
    ack = service.learn(secret, labels)
    service.learn(*samples(40, 1))
    settled(service)

    def on_disk():
        found = 0
        for path in service.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # a snapshot that is being replaced
                found += path.read_bytes().count(secret[0].tobytes())
        return found

    assert on_disk() > 0
    service.retract(ack.position).result(60)
    service.learn(*samples(5, 2))
    settled(service)
    assert on_disk() > 0  # in the journal: samples before these can still be retracted from a network
    service.close()
    monkeypatch.setattr(schedule, "WITHIN", 0.0)
    service = serve()
    wait_for(lambda: on_disk() == 0)
    before = learned_bytes(service)
    assert service.journal.position == service.learning.saved == 88
    service.close()
    again = serve()
    assert learned_bytes(again) == before
    assert again.journal.position == again.learning.state.learned == 88  # of no event that is left but the last
    ack = again.learn(secret, labels)
    settled(again)
    again.retract(ack.position).result(60)
    for _ in range(2):
        again.learning.ask_save().result(60)
    wait_for(lambda: on_disk() == 0)
    again.close()
    assert serve().learn(*samples(2)).position == 93


def test_a_snapshot_that_is_asked_for_is_without_what_was_retracted_before(serve):
    service = serve()
    service.learn(*samples(10))
    secret, labels = samples(3, 7)
    ack = service.learn(secret, labels)
    settled(service)
    service.learning.ask_save().result(60)
    service.learn(*samples(5, 2))
    settled(service)
    retracting, saving_ = (
        service.retract(ack.position),
        service.learning.ask_save(),
    )  # before the network is taught again
    retracting.result(60)
    saving_.result(60)
    again = serve(serve.crash(service))
    rows = again.learning.state.classifier._model.learner.memory.x.numpy()
    assert len(rows) > 10
    assert not (rows[:, None] == secret).all(2).any()
    assert learned_bytes(again) == learned_bytes(settled(service))


# --- tables with named features


def test_an_open_table_has_gaps_categories_and_columns_that_come_later(serve):
    service = serve(options={"method": "slda", "features": "open"})
    rows = [{"size": float(i % 7), "colour": ("red", "blue")[i % 2], "late": None} for i in range(60)]
    service.learn(rows, [row["colour"] for row in rows])
    settled(service)
    service.learn([{"size": 1.0, "late": 3.0}, {"colour": "green"}], ["red", "green"])
    settled(service)
    published, p, _ = service.predict([{"colour": "blue"}, {"colour": "red", "unheard of": 5}])
    assert [published.labels[i] for i in p.argmax(1)] == ["blue", "red"]
    for wrong in ([[1.0, 2.0]], np.zeros((1, 2), np.float32), [{"size": "large"}]):
        with pytest.raises(MnemonError):
            service.learn(wrong, ["red"])
    assert service.journal.position == 62
    assert learned_bytes(serve(serve.crash(service))) == learned_bytes(service)
