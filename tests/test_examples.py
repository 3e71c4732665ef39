"""The examples run, and show what they are meant to show."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import mnemon

EXAMPLES = Path(__file__).parents[1] / "examples"


LEAST = {  # the accuracy each example must show
    "image_stream": 0.85,
    "embeddings": 0.9,
    "tabular_stream": 0.85,
    "own_method": 0.8,
    "plain_loop": 0.9,
    "sort_photos": 0.95,
    "support_tickets": 0.97,
    "sensor_states": 0.95,
    "rare_defects": 0.95,
    "two_sites": 0.9,
}


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_example(name, least, capsys):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main() > least
    printed = capsys.readouterr().out
    assert "%" in printed
    if name == "plain_loop":  # what it prints is what the README and `mnemon demo` show
        softmax, means, hybrid = (float(percent) for percent in re.findall(r"([\d.]+) %", printed))
        assert softmax < 80 < means < hybrid


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(LEAST)


def jobs():
    """The five jobs of docs/own-data.md: their text."""
    page = (EXAMPLES.parent / "docs" / "own-data.md").read_text(encoding="utf-8")
    return re.findall(r"^## Job \d: (.*?)^## ", page.replace("\n## Job", "\n## \n## Job"), re.DOTALL | re.MULTILINE)


def test_every_job_of_the_page_has_its_example():
    found = [set(re.findall(r"examples/(\w+)\.py", job)) - {"embeddings"} for job in jobs()]
    assert found == [{"sort_photos"}, {"support_tickets"}, {"sensor_states"}, {"rare_defects"}, {"two_sites"}]


class Encoder:
    """Counts letters."""

    def encode(self, texts):
        return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], np.float32)


@pytest.mark.parametrize("job", jobs(), ids=lambda job: job.split("\n")[0])
def test_the_jobs_run_as_they_are_written(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    photos = rng.integers(256, size=(24, 8, 8, 3)).astype(np.uint8)
    labels = ["cat", "dog"] * 12
    x = rng.normal(size=(60, 5)) + 5 * (np.arange(60) % 2)[:, None]
    y = ["good", "dent"] * 30
    texts = ["refund my invoice", "cannot log in", "invoice paid twice", "password expired"] * 6
    readings = [{"heat": 20.0 + i, "shake": 0.1 * i, "line": "AB"[i % 2], "current": 2.0 * i} for i in range(40)]
    (code,) = re.findall(r"```python\n(.*?)```", job, re.DOTALL)
    names = {"mnemon": mnemon, "photos": photos, "labels": labels, "new_photos": photos[:3], "encoder": Encoder()}
    names |= {"texts": texts, "topics": ["billing", "access"] * 12, "new_texts": texts[:2]}
    names |= {"readings": readings, "states": ["idle", "running"] * 20, "x": x, "y": y, "x_new": 3 + x[:9]}
    names |= {"x_north": x[:30], "y_north": y[:30], "x_south": x[30:], "y_south": y[30:]}
    exec(code, names)
    if "start" in names:  # two sites: what the south had learned is gone again
        assert names["start"].n_seen_ == 90
    else:
        new = {"outage", "crack"} & set(names["clf"].classes_.tolist())
        assert len(new) == sum(label in code for label in ("outage", "crack"))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_nothing_private(path):
    assert re.findall(r"\._\w+|import _\w+", path.read_text(encoding="utf-8")) == []
