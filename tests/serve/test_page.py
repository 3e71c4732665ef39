"""The page, driven by Chromium: it teaches, corrects and takes back, and survives reloads and killed servers."""

import contextlib
import json
import re
import shutil
import struct
import tarfile
import threading
import time
import types
import urllib.request
import zlib

import numpy as np
import pytest

from mnemon import Client, OnlineClassifier
from mnemon.serve.http.gate import token_of
from mnemon.serve.http.models import Models
from mnemon.serve.http.server import listening, serve
from serving import FORGETS, SMALL, TOKEN, served, taught_in_turn

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
OPTIONS = SMALL | {"memory_size": 100}
SECONDS, FPS, WIDTH, HEIGHT = 1.2, 10, 160, 120  # of each colour that the camera shows
RED, BLUE = (76, 85, 255), (29, 255, 107)  # Y, Cb, Cr


def film(path):
    """A film of a red and a blue thing, which the browser takes for its camera, again and again."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F{FPS}:1 Ip A1:1 C420jpeg\n".encode())
        for colour in (RED, BLUE):
            for _ in range(int(SECONDS * FPS)):
                file.write(b"FRAME\n")
                for plane, value in enumerate(colour):
                    shape = (HEIGHT, WIDTH) if plane == 0 else (HEIGHT // 2, WIDTH // 2)
                    noise = rng.integers(-20, 20, shape)
                    file.write(np.clip(value + noise, 0, 255).astype(np.uint8).tobytes())
    return path


def png(colour, size=20):
    """A PNG file of one colour, (red, green, blue)."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * size) * size
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    camera = film(tmp_path_factory.mktemp("camera") / "two.y4m")
    arguments = [
        "--no-sandbox",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-video-capture={camera}",
    ]
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@contextlib.contextmanager
def running(folder, options=OPTIONS):
    """A server in this process, which has imported everything already."""
    at, ended = listening("127.0.0.1", 0), threading.Event()
    models = Models(folder, options=options, device="cpu")
    arguments = (models, at, [token_of(TOKEN)])
    thread = threading.Thread(target=serve, args=arguments, kwargs={"stop": ended.is_set}, daemon=True)
    thread.start()
    yield types.SimpleNamespace(url=f"http://127.0.0.1:{at.getsockname()[1]}", port=at.getsockname()[1])
    ended.set()
    thread.join()
    at.close()


@pytest.fixture
def server(tmp_path):
    with running(tmp_path / "things") as found:
        yield found


@pytest.fixture
def mortal(tmp_path):
    """A process of its own, which can be killed."""
    with served(tmp_path / "things", options=OPTIONS) as found:
        found.start()
        yield found


class Tab:
    """A page that is open, what it wrote to its console and what it asked for."""

    def __init__(self, page, server):
        self.page, self.server, self.errors, self.hosts = page, server, [], set()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        page.set_default_timeout(15_000)

    def _heard(self, message):
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def open(self, fragment=f"#token={TOKEN}"):
        self.page.goto(f"{self.server.url}/{fragment}")
        return self

    def find(self, selector, **more):
        return self.page.locator(selector, **more)

    def wait(self, condition, what, seconds=15):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what}; {self.errors}, {self.find('#notices').inner_text()}"
            self.page.wait_for_timeout(50)

    def mode(self, name):
        self.find("#modes label", has_text=name).click()

    def add(self, *names):
        for name in names:
            self.find("#name").fill(name)
            self.find("#name").press("Enter")

    def teach_rows(self, text):
        """Teach rows that have their labels in the last column."""
        self.mode("Table")
        self.find("#rows").fill(text)
        self.page.get_by_role("button", name=f"Teach {len(text.splitlines())} rows with their labels").click()
        return self

    def card(self, name):
        return self.find("#cards .card").filter(has=self.page.locator("h3", has_text=name))

    def teach(self, name):
        return self.card(name).locator(".teach")

    def samples(self, name):
        return int(self.card(name).locator(".count").inner_text())

    def winner(self):
        name = self.find("#winner .name")
        return name.inner_text() if name.count() else None

    def status(self, model="things"):
        request = urllib.request.Request(
            f"{self.server.url}/v1/models/{model}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        return json.load(urllib.request.urlopen(request, timeout=10))

    def is_settled(self):
        return self.find("#state").inner_text() in ("up to date", "ready")

    def check(self, *, server_was_away=False, all_undone=False):
        """Nothing went wrong, and nothing was asked of anybody else."""
        expected = []
        if server_was_away:
            away = (
                "CONNECTION",
                "SOCKET",
                "EMPTY_RESPONSE",
                "RESPONSE_HEADERS_TRUNCATED",
                "CONTENT_LENGTH",
                "INCOMPLETE_CHUNKED",
            )
            expected += [rf"ERR_({'|'.join(away)})"]
        if all_undone:  # a prediction that was on its way is answered: nothing is learned
            expected += [r"409 .*/predict"]
        errors = [each for each in self.errors if not any(re.search(pattern, each) for pattern in expected)]
        assert not errors
        assert self.hosts == {f"127.0.0.1:{self.server.port}"}


@pytest.fixture
def tabs(browser):
    """`tabs(server)` is a new tab that shares nothing with others."""
    with contextlib.ExitStack() as stack:

        def make(server, **more):
            context = browser.new_context(**({"permissions": ["camera"], "reduced_motion": "reduce"} | more))
            stack.callback(context.close)
            return Tab(context.new_page(), server)

        yield make


@pytest.fixture
def tab(tabs, server):
    return tabs(server)


def camera_shows(tab, colour):
    red, _, blue = tab.page.evaluate(
        """() => {
        const video = document.querySelector("video"), canvas = document.createElement("canvas");
        if (video.readyState < 2) return [0, 0, 0];
        canvas.width = canvas.height = 1;
        canvas.getContext("2d").drawImage(video, 0, 0, 1, 1);
        return [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    )
    return (red > 150 and blue < 100) if colour == "red" else (blue > 150 and red < 100)


def hold(tab, name, colour, seconds=0.7):
    """Hold a class's button when the camera begins to show the colour."""
    tab.wait(lambda: not camera_shows(tab, colour), "the other colour")
    tab.wait(lambda: camera_shows(tab, colour), colour)
    button = tab.teach(name)
    button.hover()
    tab.page.mouse.down()
    tab.page.wait_for_timeout(int(seconds * 1000))
    tab.page.mouse.up()


def shows_and_says(tab, colour, name):
    """Whether the name is that of the colour, some time after the camera began to show it."""
    tab.wait(lambda: not camera_shows(tab, colour), "the other colour")
    tab.wait(lambda: camera_shows(tab, colour), colour)
    tab.page.wait_for_timeout(600)
    return tab.winner() == name


def test_the_camera_teaches_two_classes_through_undo_reload_and_a_killed_server(tabs, mortal):
    tab, server = tabs(mortal), mortal
    tab.open().add("warm", "cold")
    assert "token" not in tab.page.url  # neither seen nor kept in the history
    tab.wait(lambda: camera_shows(tab, "red"), "the camera is on: it was allowed before")
    for _ in range(5):
        hold(tab, "warm", "red")
        hold(tab, "cold", "blue")
        if shows_and_says(tab, "red", "warm") and shows_and_says(tab, "blue", "cold"):
            break
    else:
        pytest.fail("it does not tell them apart")
    tab.wait(lambda: sum(map(tab.samples, ("warm", "cold"))) == tab.status()["acknowledged"], "all is learned")
    before = {name: tab.samples(name) for name in ("warm", "cold")}
    assert min(before.values()) >= 3

    # a correction teaches what is shown with the name that is clicked; undo takes it back
    tab.find("#bars li", has_text="cold").locator("button").click()
    tab.wait(lambda: tab.samples("cold") == before["cold"] + 1, "the correction is learned")
    assert tab.find("#undo").inner_text() == "Undo: 1 × cold"
    tab.find("#undo").click()
    tab.wait(lambda: tab.samples("cold") == before["cold"], "the correction is taken back")
    tab.wait(lambda: "taken back" in tab.find("#happened").inner_text(), "undo is among the events")

    tab.page.reload()
    tab.wait(lambda: tab.card("cold").count() == 1, "the classes are there after a reload")
    assert tab.samples("warm") == before["warm"]
    assert tab.find("#undo").inner_text().endswith("× cold")  # the last time that its button was held

    # samples taught while the server is away are kept, and count once when it is back
    acknowledged = tab.status()["acknowledged"]
    server.end()
    tab.wait(lambda: "reconnecting" in tab.find("#state").inner_text(), "it says that the server is away")
    hold(tab, "warm", "red", seconds=0.6)
    tab.wait(lambda: "kept here" in tab.find("#state").inner_text(), "samples are kept")
    kept = int(tab.card("warm").locator(".samples .quiet").inner_text().strip(" +"))
    server.start()
    tab.wait(tab.is_settled, "it is back")
    tab.wait(lambda: tab.samples("warm") == before["warm"] + kept, "what was kept is learned")
    assert tab.status()["acknowledged"] == acknowledged + kept
    tab.check(server_was_away=True)


def test_unsent_samples_outlive_a_reload(tab):
    tab.open().mode("Pictures")
    tab.add("a")
    tab.wait(tab.is_settled, "it is there")
    tab.page.route("**/learn", lambda route: route.abort())
    tab.find("#files").set_input_files({"name": "1.png", "mimeType": "image/png", "buffer": png((255, 0, 0))})
    tab.teach("a").click()
    tab.wait(lambda: "+ 1" in tab.card("a").inner_text(), "it waits")
    tab.page.unroute("**/learn")
    tab.page.reload()
    tab.wait(lambda: tab.card("a").count() == 1 and tab.samples("a") == 1, "it is sent after the reload")
    assert tab.status()["acknowledged"] == 1


def test_a_wrong_token_asks_for_the_right_one(tab, tabs, server):
    tab.open("#token=wrong")
    tab.find("#login").wait_for()
    assert "not this server's token" in tab.find("#login").inner_text()
    assert not tab.find("#main").is_visible()
    tab.page.keyboard.type(f"{tab.server.url}/#token={TOKEN}")  # the whole link may be pasted; the box has the focus
    tab.page.keyboard.press("Enter")
    tab.find("#classes").wait_for()
    assert all("401" in each for each in tab.errors)
    other = tabs(server).open("")
    other.find("#login").wait_for()
    other.check()  # without a token nothing is even asked


def test_a_label_stays_text(tab):
    label = "<img src=x onerror=alert(1)>"
    tab.open().mode("Pictures")
    tab.page.on("dialog", lambda dialog: pytest.fail("a label ran"))
    tab.add(label, "b")
    files = [{"name": f"{i}.png", "mimeType": "image/png", "buffer": png((200, 20 * i, 0))} for i in range(3)]
    tab.find("#files").set_input_files(files)
    tab.wait(lambda: "3 pictures" in tab.teach(label).inner_text(), "pictures are shown")
    tab.teach(label).click()
    tab.wait(lambda: tab.winner() == label, "it is predicted")
    tab.wait(lambda: tab.find("#wall").inner_text().startswith(label), "it is in the memory")
    assert tab.find("#happened li", has_text=label).count() == 1
    assert tab.find("main img").count() == 0
    assert tab.status()["classes"] == [{"label": label, "samples": 3}]
    tab.check()


def test_drawing_and_the_keyboard(tab):
    tab.open().mode("Draw")
    has_focus = "each => each === document.activeElement"
    tab.add("dot")
    assert tab.find("#name").evaluate(has_focus)  # the second name is typed after the first
    tab.add("line")
    assert tab.teach("line").evaluate(has_focus)  # a new class is ready to be taught
    tab.page.keyboard.press("Space")
    assert "Draw something first" in tab.find("#notices").inner_text()
    box = tab.find(".board canvas").bounding_box()
    tab.page.mouse.move(box["x"] + 50, box["y"] + 50)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 60, box["y"] + 200, steps=4)
    tab.page.mouse.up()
    tab.teach("line").focus()
    tab.page.keyboard.press("Enter")
    tab.wait(lambda: tab.samples("line") == 1, "Enter teaches")
    tab.wait(lambda: tab.find("#spoken").inner_text().startswith("line"), "a screen reader says what it is")
    assert tab.find("#modes label").count() == 3  # a model of images is shown no table
    tab.check()


def test_rows_of_a_table(tab):
    tab.open().mode("Table")
    tab.find("#rows").fill("width;height\n1;2\n1;oops")
    assert "“oops” is no number" in tab.find(".rows .bad").inner_text()
    tab.find("#rows").fill("width;height;kind\n1;2;small\n9;8;large\n1.5;2.1;small\n8.7;8;large")
    tab.page.get_by_role("button", name="Teach 4 rows with their labels").click()
    tab.wait(lambda: tab.card("large").count() == 1 and tab.samples("large") == 2, "rows are learned")
    assert tab.status()["features"] == ["width", "height"]
    tab.find("#rows").fill("1.2;2.2")
    tab.wait(lambda: tab.winner() is not None, "a row is predicted")
    tab.teach("small").click()
    tab.wait(lambda: tab.samples("small") == 3, "a row is taught by its class's button")
    assert not tab.find("#modes").is_visible()
    tab.check()


def test_what_it_forgot_is_shown(tabs, tmp_path):
    with running(tmp_path / "things", options=FORGETS) as server:
        tab = tabs(server).open().teach_rows("1 2 a\n5 6 b")
        tab.wait(lambda: tab.find("#curve").inner_text(), "curves came")
        assert not tab.find("#exam").is_visible()  # nothing is held out yet
        with Client(server.url, token=TOKEN) as client:
            client.learn([[i, 1.0] for i in range(10)], ["a"] * 10, wait="published")
            later = tab.find("#exam-classes li", has_text="b")
            tab.wait(lambda: later.count() == 1, "a class of which nothing is held out is there")
            assert later.inner_text().split("\n") == ["b", "measured after 10 samples"]
            assert tab.find("#exam-classes .few").count() == 1  # one sample says little
            taught_in_turn(lambda x, y: client.learn(x, y, wait="published"))
        tab.wait(lambda: tab.find("#exam-classes li").count() == 4, "the exam has all classes")
        tab.wait(lambda: tab.find("#exam-classes .few").count() == 0, "there are enough of each")
        tab.wait(lambda: "forgot 100 %" in tab.find("#exam-classes").inner_text(), "it says what was forgotten")
        assert "held out of learning" in tab.find("#exam").inner_text()
        tab.wait(lambda: tab.find("#memory-title").inner_text() == "Held out of learning", "it replays nothing")
        tab.check()


def test_rows_that_bring_labels_are_taught_by_one_button_and_once(tab):
    tab.open().mode("Table")
    tab.add("small")
    tab.find("#rows").fill("1 2\n3 4")
    assert "Teach 2 rows" in tab.teach("small").inner_text()
    text = "1 2 small\n9 8 large\n1 3 small"
    tab.find("#rows").fill(text)
    assert not tab.teach("small").is_visible()  # it would teach all of them as small
    tab.teach_rows(text)
    own = tab.find(".rows .primary")
    assert own.inner_text() == "Taught: 3 rows with their labels"
    assert own.is_disabled()
    tab.wait(lambda: tab.card("large").count() == 1 and tab.samples("small") == 2, "they are learned")
    tab.wait(lambda: tab.find("#guesses-which").inner_text() == "row 1 of 3", "it says which row is predicted")
    heads = tab.find(".rows th")
    assert heads.all_inner_texts() == ["label", "it says", "column 1", "column 2"]
    aligned = "each => getComputedStyle(each).textAlign"
    assert [each.evaluate(aligned) for each in heads.all()] == [
        each.evaluate(aligned) for each in tab.find(".rows tr:nth-child(2) td").all()
    ]
    tab.find("#undo").click()
    tab.wait(lambda: own.is_enabled(), "what was taken back may be taught again")
    tab.wait(lambda: tab.samples("small") == 0, "it is taken back")
    tab.find("#rows").fill(text + "\n2 2 small")
    assert own.inner_text() == "Teach 4 rows with their labels"
    tab.check(all_undone=True)


def test_undo_takes_the_pictures_of_one_lesson_from_a_card(tab):
    tab.open().mode("Pictures")
    tab.add("a")
    for count in (2, 7):
        files = [{"name": f"{i}.png", "mimeType": "image/png", "buffer": png((count, 9 * i, 0))} for i in range(count)]
        tab.find("#files").set_input_files(files)
        tab.wait(lambda count=count: f"{count} pictures" in tab.teach("a").inner_text(), "pictures are shown")
        tab.teach("a").click()
    strip = tab.card("a").locator(".strip canvas:visible")
    assert strip.count() == 6  # the latest
    tab.wait(lambda: tab.samples("a") == 9, "they are learned")
    tab.wait(lambda: tab.find("#guesses-which").inner_text() == "picture 1 of 7", "it says which one is predicted")
    tab.find("#undo").click()
    tab.wait(lambda: tab.samples("a") == 2, "the last lesson is taken back")
    assert strip.count() == 2
    tab.check()


def test_what_was_taken_back_is_named(tab):
    labels = [{"label": label, "samples": n} for n, label in enumerate((5, "owl", "jay", "wren", "tit", "robin"), 1)]
    events = [{"labels": labels[:1]}, {"samples": 3}, {}, {"labels": labels}]
    data = [json.dumps({"time": 1.0, "position": 304} | each) for each in events]
    stream = "".join(f"id: 4f1c-{i}\nevent: retracted\ndata: {each}\n\n" for i, each in enumerate(data))
    tab.page.route("**/events", lambda route: route.fulfill(body=stream, content_type="text/event-stream"))
    tab.open()
    tab.wait(lambda: tab.find("#happened li").count() == 4, "the events are there")
    assert tab.find("#happened span").all_text_contents()[::-1] == [
        "taken back: 1 × 5",
        "taken back: 3 samples",
        "taken back: the samples up to 304",
        "taken back: 1 × 5, 2 × owl, 3 × jay, 4 × wren, 2 more classes",
    ]


TRANSFER = """(element, [kind, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "1.png", { type: "image/png" }));
    const event = kind === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
        : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
    element.dispatchEvent(event);
}"""


@pytest.mark.slow
def test_pictures_are_dropped_on_a_class_or_pasted_and_the_model_downloaded(tab, tmp_path):
    tab.open().add("red", "blue")
    for name, colour in (("red", (250, 0, 0)), ("blue", (0, 0, 250))):
        tab.card(name).evaluate(TRANSFER, ["drop", list(png(colour))])
        tab.wait(lambda name=name: tab.samples(name) == 1, f"{name} is learned where it is dropped")
    tab.find("body").evaluate(TRANSFER, ["paste", list(png((0, 0, 250)))])
    tab.wait(lambda: tab.winner() == "blue", "what is pasted is shown and predicted")
    assert tab.find("#modes input:checked").get_attribute("value") == "pictures"
    tab.card("red").evaluate(TRANSFER, ["drop", list(b"no picture")])
    tab.wait(
        lambda: "1.png is no image" in tab.find("#notices").inner_text(), "another file is refused with a sentence"
    )
    assert tab.status()["acknowledged"] == 2
    tab.check()
    with tab.page.expect_download() as download:
        tab.find("#download").click()
    with tarfile.open(download.value.path()) as tar:
        tar.extractall(tmp_path / "downloaded", filter="data")
    assert OnlineClassifier.load(tmp_path / "downloaded").n_seen_ == 2  # of what was taught a moment ago


@pytest.mark.slow
def test_one_of_many_models_is_chosen_and_labels_keep_their_types(tabs, tmp_path):
    for name, labels in (("letters", ["a", "b"]), ("numbers", [3, 4])):
        OnlineClassifier(**OPTIONS).partial_fit(np.float32([[0, 1], [5, 6]]), labels).save(tmp_path / "all" / name)
    with running(tmp_path / "all", options={}) as server:
        tab = tabs(server).open()
        tab.wait(lambda: tab.card("a").count() == 1, "the first model is shown")
        tab.find("#models").select_option("numbers")
        tab.wait(lambda: tab.card("3").count() == 1 and tab.card("a").count() == 0, "the other is")
        tab.find("#rows").fill("5 6")
        tab.wait(lambda: tab.winner() in ("3", "4"), "a row is predicted")
        tab.add("7")  # a number, as the other classes are
        tab.teach("7").click()
        tab.wait(lambda: tab.samples("7") == 1, "it is learned")
        assert [each["label"] for each in tab.status("numbers")["classes"]] == [3, 4, 7]
        with tab.page.expect_download() as download:
            tab.find("#download").click()
        assert download.value.suggested_filename == "numbers.tar"
        tab.check()


@pytest.mark.slow
def test_a_camera_that_is_refused_or_unsafe_is_explained(tabs, server):
    refused = tabs(server, permissions=[]).open()
    refused.find("#source button").click()
    refused.wait(lambda: "not allowed to use the camera" in refused.find(".veil").inner_text(), "refused")
    unsafe = tabs(server)
    unsafe.page.add_init_script("Object.defineProperty(window, 'isSecureContext', { get: () => false })")
    unsafe.open()
    unsafe.wait(lambda: "--tls-cert" in unsafe.find(".veil").inner_text(), "unsafe")


def test_nothing_is_wider_than_a_small_screen(tabs, server):
    tab = tabs(server, viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    tab.open().add("a" * 120, "b")
    heights = {each.bounding_box()["height"] for each in tab.find("#modes span").all()}
    assert len(heights) == 1
    assert heights.pop() < 40  # none is broken into two lines
    for name in ("Pictures", "Draw", "Table"):
        tab.mode(name)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_a_server_killed_again_and_again_under_a_held_button_learns_each_frame_once(tabs, mortal):
    tab = tabs(mortal).open()
    tab.add("thing")
    tab.wait(lambda: tab.find(".veil").is_hidden(), "the camera is on")
    tab.page.evaluate(  # what is sent for the first time, by the keys of requests
        """() => {
        window.frames = new Map();
        const ask = window.fetch;
        window.fetch = (path, more) => {
          if (path.endsWith("/learn")) window.frames.set(more.headers["Idempotency-Key"], [...more.body.keys()].length);
          return ask(path, more);
        };
    }"""
    )
    tab.teach("thing").hover()
    tab.page.mouse.down()
    for _ in range(10):
        tab.page.wait_for_timeout(1500)
        mortal.end()
        tab.page.wait_for_timeout(700)
        mortal.start()
    tab.page.mouse.up()
    tab.wait(tab.is_settled, "it is back", seconds=60)
    sent = tab.page.evaluate("[...window.frames.values()].reduce((a, b) => a + b, 0)")
    assert tab.status()["acknowledged"] == sent > 50
    tab.find("#undo").click()
    tab.wait(lambda: not tab.status()["classes"], "all of it is taken back", seconds=60)
    tab.check(server_was_away=True, all_undone=True)
