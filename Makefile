# Everything here needs a Python >= 3.11, make and a package index; what else is needed is installed into .venv.
#   make demo    a job on real data: starts a broker, runs it, shows its results, checks them
#   make test    all checks and tests; brokers that cannot be had here are skipped with the reason
#   make bench   measures speed beside hand-written loops
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -ra
BIN := $(VENV)/bin

.DELETE_ON_ERROR:
.PHONY: demo test lint bench venv clean

demo: $(VENV)/.demo-installed
	@$(BIN)/python examples/demo.py

# One run tells all: every linter and all tests run, whatever the others found.
LINT := status=0; $(BIN)/ruff check || status=1; $(BIN)/ruff format --check || status=1; $(BIN)/mypy || status=1; \
	$(BIN)/mypy --strict examples/*.py || status=1; $(BIN)/lint-imports || status=1

test: $(VENV)/.dev-installed
	@$(LINT); $(BIN)/python -m pytest $(PYTEST_ARGS) || status=1; exit $$status

lint: $(VENV)/.dev-installed
	@$(LINT); exit $$status

bench: $(VENV)/.dev-installed
	@$(BIN)/python -m tests.bench

venv: $(VENV)/.dev-installed

clean:
	rm -rf $(VENV) .demo .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kstreampy needs Python 3.11 or later; %s is %s: make PYTHON=..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)

# Installed again only when pyproject.toml has changed: the packages are editable, so code needs no new install.
$(VENV)/.%-installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@
