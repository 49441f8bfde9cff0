# Every target sets up .venv by itself, once; nothing is done twice.
PYTHON ?= python3
BIN := .venv/bin
# Two test processes on two cores; more threads would only be in each other's way.
export OPENBLAS_NUM_THREADS := 1

.PHONY: demo pictures test test-all test-browser check check-versions docs fuzz bench notebook clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev]'
# Compiles C: without a compiler its tests are skipped, and nothing else changes.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[tep]' \
		|| echo 'Tests of testbed tep are skipped: tep-studio needs a C compiler.'
	touch $@

demo: .venv/ready  ## five detectors and two baselines on two simulated plants: minutes
	$(BIN)/sightline demo --out build/demo

pictures: demo  ## the pictures of README and docs; needs chromium
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1400,840 \
		--virtual-time-budget=8000 --screenshot=docs/images/report.png \
		"file://$(CURDIR)/build/demo/report.html"
	$(BIN)/python bench/twin_pictures.py

# The tests of a file share what takes long to make, so they go to one process.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: .venv/ready  ## the default suite: minutes
	$(PYTEST) -m 'not slow' --ignore tests/browser

test-all: .venv/ready  ## everything, slow tests too
	$(PYTEST)

# Debian's own browser; playwright's is not needed.
.venv/browser: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev,browser]'
	command -v chromium > /dev/null || { \
		as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$as_root apt-get update --quiet=2 && \
		$$as_root apt-get install --yes --quiet=2 chromium; }
	touch $@

test-browser: .venv/browser  ## the report in a real browser
	$(BIN)/python -m pytest tests/browser

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[dev,docs]'
	touch $@

docs: .venv/docs  ## the documentation as a site, in build/site; needs no network
	$(BIN)/python -m mkdocs build --strict

check: .venv/ready  ## lint, format, types, import direction
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

notebook: .venv/ready  ## run the example again and keep its outputs
	$(BIN)/python tests/executed_notebook.py examples/notebook.ipynb

CASES ?= 10000
fuzz: .venv/ready  ## damaged files of every kind: each works, or is refused in one sentence
	PYTHONPATH=tests $(BIN)/python -m fuzz.fuzzer --cases $(CASES)

check-versions: .venv/ready  ## the lowest and the newest versions, on each Python there is
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python tests/check_versions.py

bench: .venv/ready  ## speed and memory, against what one would otherwise run
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/cluster.py
	$(BIN)/python bench/study.py
	$(BIN)/python bench/alarm_rules_speed.py
	$(BIN)/python bench/alarm_metrics.py
	$(BIN)/python bench/waterworks.py
	$(BIN)/python bench/detectors.py
	$(BIN)/python bench/nsibf.py
	$(BIN)/python bench/geco.py

clean:
	rm -rf .venv build
