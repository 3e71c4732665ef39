# make demo        the paper's claim on real digits in a minute or two, and a report to look at
# make test        lint, types and tests, under 10 minutes on 2 cores
# make test-slow   the long kill tests, and the tests on real data
# make test-lowest the fast tests with the lowest versions that pyproject.toml allows, torch's aside
# make bench       speed beside the plain loop
# make results     the tables and figures in results/, README.md and docs/, from the records; runs nothing

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-lowest bench results pack clean

demo: .venv/.core
	$(BIN)/mnemon demo --out out/demo

test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto

test-slow: .venv/.dev
	$(BIN)/pytest -n auto -m slow

# An environment of its own. Deprecations are no errors there: old packages use what new ones deprecate. River and Schemathesis need newer packages than
# the lowest, the page needs a browser, Ray and Optuna are not installed.
LOWEST := export serve parquet tensorboard
test-lowest: .venv-lowest/.made
	.venv-lowest/bin/python -m pytest -n auto -W default::DeprecationWarning --ignore tests/estimator/test_estimator_river.py \
		--ignore tests/serve/http/test_openapi.py --ignore tests/serve/test_page.py --ignore tests/test_package.py \
		--ignore tests/experiments/test_ray.py --ignore tests/own_data/test_sharded_fit.py --ignore tests/experiments/test_tune_space.py

.venv-lowest/.made: pyproject.toml constraints.txt tests/lowest.py
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py $(LOWEST) > .venv-lowest/lowest.txt
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --constraint .venv-lowest/lowest.txt \
		--editable '.[export,serve,parquet,tensorboard]' pytest pytest-xdist hypothesis httpx2 onnxruntime pandas pytorch-metric-learning
	touch $@

bench: .venv/.dev
	$(BIN)/mnemon bench --out out/bench
	$(BIN)/python benchmarks/long_stream.py
	$(BIN)/python benchmarks/estimator.py

results: .venv/.core
	$(BIN)/mnemon reproduce all --records-only --out results --fill README.md docs/reproduction.md docs/choosing.md docs/ambiguities.md docs/beyond.md docs/performance.md docs/methods/*.md

# One environment, filled in two stages; each is skipped while nothing it depends on has changed.
.venv/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/.dev: .venv/.core
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	# PyTorch brings Triton along with CUDA only; its interpreter tests the kernels without.
	$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check triton==3.9.0
	touch $@

# The records of results/, packed: a tenth of the size. New runs are appended beside them.
pack: .venv/.core
	$(BIN)/python -c 'from mnemon.experiments.store import ResultFolder; ResultFolder("results").pack()'

clean:
	rm -rf .venv .venv-lowest out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
