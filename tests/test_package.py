"""The package as it is shipped."""

import ast
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import mnemon

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_nothing_we_read_can_run_code():
    """No module that unpickles is imported, and nothing that would evaluate what it reads is called."""
    modules = {"pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}
    calls = {"eval", "exec", "torch.load", "np.load", "numpy.load"}
    assert len(SOURCES) > 40
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not modules & {alias.name.split(".")[0] for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in modules, path
            elif isinstance(node, ast.Call):
                named = {word.arg: ast.unparse(word.value) for word in node.keywords}
                without_pickle = named.get("allow_pickle") == "False"
                assert ast.unparse(node.func) not in calls or without_pickle, path


def test_version_is_the_same_everywhere():
    assert f"## {mnemon.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {mnemon.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_every_dependency_is_pinned_for_reproduction():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    extras = wanted["optional-dependencies"]
    assert (
        f"mnemon[{','.join(name for name in extras if name != 'dev')}]" in extras["dev"]
    )  # the tests need all of them
    every = [*wanted["dependencies"], *(each for extra in extras.values() for each in extra)]
    for requirement in (each for each in every if not each.startswith("mnemon[")):
        assert re.split("[<>=]", requirement)[0].lower() in pinned, requirement


def test_every_package_that_is_imported_at_once_is_asked_for():
    """What comes with another package today may not come with it tomorrow."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    asked = {re.split("[<>=]", requirement)[0] for requirement in wanted}
    modules = asked | {"sklearn", "PIL", "mnemon"} | sys.stdlib_module_names
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["serve"]
    of_http = {re.split("[<>=]", requirement)[0].replace("-", "_") for requirement in extra}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                found = {alias.name.split(".")[0] for alias in node.names}
            else:
                found = {str(node.module).split(".")[0]} if isinstance(node, ast.ImportFrom) else set()
            more = (
                of_http if path.parent == ROOT / "src/mnemon/serve/http" else {"triton"}
            )  # torch brings it where it can
            assert found <= modules | more, path


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment_and_runs_the_demo(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT], check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    install = [tmp_path / "env/bin/pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, capture_output=True)
    command = tmp_path / "env/bin/mnemon"
    done = subprocess.run([command, "demo", "--seeds", "2"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "hybrid + ncm" in done.stdout
    assert (tmp_path / "out/demo/report.html").stat().st_size > 50_000
    typed = tmp_path / "env/lib" / f"python3.{sys.version_info.minor}" / "site-packages/mnemon/py.typed"
    assert typed.exists()
