# Every target sets up what it needs. `make` alone lists them.
PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
RUN = runs/quickstart
# a price on re-plans beyond half of the steps, so that there is a plan to see
TRAIN = $(BIN)/pag train quickstart --out $(RUN) --set loss.replan_rate=0.5

.PHONY: help venv demo serve test lint browser docs clean

help:
	@echo "make demo   train a small planning model, score it, draw its alignments and its plan"
	@echo "make test   lint, type-check and test"
	@echo "make serve  the demo's model in the browser: watch it plan"
	@echo "make venv   only build $(VENV)"
	@echo "make docs   regenerate docs/cli.md and the figures"
	@echo "make clean  remove $(VENV), caches and the demo's run"

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pag needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

demo: venv
	$(TRAIN)
	@echo; echo "On 500 graphs it never saw:"
	$(BIN)/pag evaluate $(RUN) --split test
	@echo; echo "Where it looked, and what it planned:"
	$(BIN)/pag plot alignments $(RUN) --number 2 --out $(RUN)/alignments.png
	$(BIN)/pag plot plan $(RUN) --out $(RUN)/plan.png
	@echo; echo "Step by step in the browser: make serve"

serve: venv
	@test -d $(RUN) || $(TRAIN)
	$(BIN)/pag serve $(RUN)

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The tests of the page drive the system's Chromium; without one they are skipped, and say so.
browser:
	@for name in chromium chromium-browser google-chrome-stable google-chrome chrome; do \
	  if command -v $$name > /dev/null; then exit 0; fi; done; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing Chromium for the browser tests (apt-get install chromium)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium > /dev/null; \
	fi || true; \
	command -v chromium > /dev/null || echo "no browser found and none installed: its tests are skipped; install Chromium to run them"

test: lint browser
	$(BIN)/pytest --numprocesses 2

docs: venv
	$(BIN)/python docs/make.py

clean:
	rm -rf $(VENV) $(RUN) .pytest_cache .mypy_cache .ruff_cache
