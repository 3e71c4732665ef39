"""The package as it is shipped."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
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


def test_no_module_is_long():
    """One idea a file. The kernels are one table of shapes and strides, which is no easier to read in two files."""
    long = {path.name for path in SOURCES if len(path.read_text().splitlines()) > 400}
    assert long == {"kernels.py"}


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheel that was made from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def installed(wheel, folder):
    """An environment with the wheel alone; all else is that of this one, so that nothing is downloaded."""
    venv.create(folder, with_pip=True)
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    install = [folder / "bin/pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return packages


def test_wheel_and_sdist_hold_every_file_of_the_package(built):
    sdist, wheel = built
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/mnemon").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".lock")
    }
    kinds = {path.rpartition(".")[2] for path in wanted}
    assert {"py", "html", "css", "js", "svg", "json", "typed"} <= kinds
    for name in ("experiments/recipes/recipes.json", "paper/beyond.json", "serve/page/app.js", "py.typed"):
        assert f"mnemon/{name}" in wanted
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    assert wanted == {name for name in files if name.startswith("mnemon/")}
    assert any(name.endswith("licenses/LICENSE") for name in files)
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in wanted} <= sources
    assert {"pyproject.toml", "Makefile", "tests/test_package.py", "results/records.jsonl.gz"} <= sources
    for page in (name for name in sources if name.endswith(".md")):
        for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text()):
            there = os.path.normpath(Path(page).parent / link)
            assert "://" in link or there in sources or (ROOT / there).is_dir(), (page, link)


def test_the_page_of_a_package_index_leads_nowhere_that_is_not_there(built):
    """An index shows no files of ours: a link to one would be dead, and a picture would not be seen."""
    with zipfile.ZipFile(built[1]) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    page = metadata.partition("\n\n")[2]
    assert page.startswith("# mnemon\n")
    assert re.findall(r"\]\((?!https://)[^)]*\)|<img", page) == []
    extras = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert extras == set(re.findall(r"^Provides-Extra: (\w+)$", metadata, re.MULTILINE)) - {"dev"}


@pytest.mark.slow
def test_the_wheel_runs_where_the_repository_is_not(built, tmp_path):
    packages = installed(built[1], tmp_path / "env")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "MNEMON_DATA": str(tmp_path / "data")
    }

    def run(*words):
        done = subprocess.run(words, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    bin = tmp_path / "env/bin"
    where = run(bin / "python", "-c", "import mnemon; print(mnemon.__file__)")
    assert Path(where.strip()).is_relative_to(packages)
    assert run(bin / "mnemon", "--version") == f"mnemon {mnemon.__version__}\n"
    assert "hybrid" in run(bin / "mnemon", "list", "methods")
    # Recipes, templates and the style sheet are read from the package.
    words = ("--method", "er", "--stream", "split-digits", "--seeds", "1", "--device", "cpu", "--out", "out", "--quiet")
    run(bin / "mnemon", "run", *words)
    run(bin / "mnemon", "report", "out")
    assert "<style>" in (tmp_path / "out/report.html").read_text()
    # The types of the public names are seen, which load only when they are used.
    shutil.copy(ROOT / "tests/user_code.py", tmp_path)
    run(sys.executable, "-m", "mypy", "--strict", "--python-executable", bin / "python", "user_code.py")
    with (tmp_path / "user_code.py").open("a") as file:
        file.write("\nwrong: int = classify.__name__ + metrics.average_accuracy([[1.0]])\n")
        file.write('OnlineClassifier(memory_sise=3)\nstreams.split([0], tasks="five", seed=0)\n')
    checked = [sys.executable, "-m", "mypy", "--strict", "--python-executable", bin / "python", "user_code.py"]
    done = subprocess.run(checked, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    assert len(re.findall(r"error: .*(memory_sise|\"tasks\"|Unsupported operand)", done.stdout)) == 3, done.stdout


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment_and_runs_the_demo(built, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    install = [tmp_path / "env/bin/pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", built[1]]
    subprocess.run(install, check=True, capture_output=True)
    command = tmp_path / "env/bin/mnemon"
    done = subprocess.run([command, "demo", "--seeds", "2"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "hybrid + ncm" in done.stdout
    assert (tmp_path / "out/demo/report.html").stat().st_size > 50_000
