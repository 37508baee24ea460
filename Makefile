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

# The tests run also where lint found something, so that one run tells all.
LINT := $(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/mypy --strict examples/*.py \
	&& $(BIN)/lint-imports

test: $(VENV)/.dev-installed
	@status=0; $(LINT) || status=1; $(BIN)/python -m pytest $(PYTEST_ARGS) || status=1; exit $$status

lint: $(VENV)/.dev-installed
	@$(LINT)

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
