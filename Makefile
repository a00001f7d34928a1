# Every target creates .venv and installs what it needs, again only when pyproject.toml changes.
#   make lab PYTHON=python3.12    use another interpreter (3.11 or newer) for .venv
#   make lab NO_BROWSER=1         on a server; LAB_FLAGS="--port=9000" passes options on
#   make unit PINS=oldest         in a fresh clone: the lower bound of every pin, not the newest release
#   make unit AS_CPU=haswell      pass for another CPU, which has no feature that this one lacks

PYTHON ?= python3
PINS ?= newest
JOBS ?= 2
AS_CPU ?=
NO_BROWSER ?=
LAB_FLAGS ?=
WEEKS ?= 14
START ?=

# Tests start hundreds of processes; without bytecode each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip install -q --disable-pip-version-check
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
SOLUTIONS := $(wildcard solutions/*.ipynb)
# Of a progress bar, only the last state is stored.
ONE_STREAM = $(PY) -m nbconvert --to notebook --inplace --coalesce-streams
BENCHMARKS := $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))

# Jupyter refuses to start as root unless told otherwise; containers usually run as root.
LAB_MODE := $(if $(NO_BROWSER),--no-browser) $(if $(filter 0,$(shell id -u)),--allow-root)

OLDEST := $(if $(filter oldest,$(PINS)),$(VENV)/oldest.txt)
RUNTIME := $(VENV)/.installed-runtime
TESTS := $(VENV)/.installed-test-dev
DOCS := $(VENV)/.installed-docs

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help docs slides course lab demo test check unit exhaustive size browser browser-all nbval verify attacks mutants mutants-of bench notebooks exercises ci-deps clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

lab: $(RUNTIME) ## open the notebooks in JupyterLab
	$(PY) -m jupyterlab $(LAB_MODE) $(LAB_FLAGS) notebooks/00_start_here.ipynb

demo: $(RUNTIME) ## measure one product under seven schedules, in a terminal
	$(PY) -m minitvm demo

docs: $(DOCS) ## build the site in build/site, without a network; warnings are errors
	$(PY) docs/make_site.py build/site

slides: $(RUNTIME) ## make slides of the notebooks in build/slides
	$(PY) docs/make_slides.py build/slides $(NOTEBOOKS)

course: $(RUNTIME) ## make a course folder: make course WEEKS=6 START=2027-01-11
	$(PY) docs/make_course.py build/course --weeks $(WEEKS) --start "$(START)"

test: check unit browser nbval verify ## everything that continuous integration runs

check: $(TESTS) ## check format, lint, types and imports
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pyright
	$(PY) -m pytest tests/test_layers.py tests/test_project.py

unit: $(TESTS) ## run the test suite, with a verifier after every pass
	MINITVM_CHECK=1 $(PY) -m pytest -n $(JOBS) -m "not browser and not exhaustive and not grader" \
		$(addprefix --as-cpu ,$(AS_CPU))

exhaustive: $(TESTS) ## test thousands of random programs: many minutes
	MINITVM_CHECK=1 $(PY) -m pytest -n $(JOBS) -m "exhaustive or hypothesis" \
		--hypothesis-profile=exhaustive
	$(PY) -m tests.fuzz --n 10000 --jobs $(JOBS)
	$(PY) -m tests.fuzz --gpu 5000 --jobs $(JOBS)

# One at a time: each starts a JupyterLab with kernels, and its waits are limited.
browser: $(TESTS) ## test the widgets in JupyterLab and Chromium; skipped without Chromium
	$(PY) -m pytest -n 0 -m "browser and not matrix" tests/browser

browser-all: $(TESTS) ## the same, and every notebook of the course: many minutes
	$(PY) -m pytest -n 0 -m browser tests/browser

size: $(TESTS) ## lines per package, beside their budgets
	$(PY) -m pytest -n 0 -q -s tests/test_budgets.py

# loadscope keeps the cells of one notebook in one worker, in order.
nbval: $(TESTS) ## run the notebooks and compare with their stored outputs
	$(if $(NOTEBOOKS),MINITVM_GUESSES=off $(PY) -m pytest --nbval --nbval-current-env \
		--nbval-cell-timeout=180 --nbval-sanitize-with tests/nbval.ini \
		-p no:python -n $(JOBS) --dist loadscope $(NOTEBOOKS) $(SOLUTIONS),@echo "no notebooks to compare")

verify: $(TESTS) ## attack the grader, and check that the exercises match their solutions
	$(PY) -m minitvm.edu build --check
	$(PY) -m minitvm.edu verify --jobs $(JOBS)
	$(PY) -m pytest -n $(JOBS) -m grader tests/edu

attacks: $(TESTS) ## run the programs of hostile students as root, as a user and as in a pod
	$(PY) -m tests.edu.attacks.suite --matrix

mutants: $(TESTS) ## change the solutions by machine: the grader must notice; many minutes
	$(PY) -m minitvm.edu verify --mutate --jobs $(JOBS)

mutants-of: $(TESTS) ## change a package by machine: make mutants-of PACKAGE=minitvm/lowering
	MINITVM_CHECK=1 $(PY) -m tests.mutants $(PACKAGE)

bench: $(RUNTIME) ## run the benchmarks against peers, under a minute each
	$(if $(BENCHMARKS),,@echo "no benchmarks to run")
	@for file in $(BENCHMARKS); do echo "$$file"; $(PY) "$$file" --quick || exit 1; done

notebooks: $(RUNTIME) ## run the notebooks and store their outputs
	$(if $(NOTEBOOKS),MINITVM_WIDGETS=static $(PY) -m nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False \
		--ExecutePreprocessor.store_widget_state=False $(NOTEBOOKS),@echo "no notebooks to run")
	$(if $(NOTEBOOKS),$(ONE_STREAM) $(NOTEBOOKS))

exercises: $(RUNTIME) ## run the solutions, store their outputs, and build the exercises
	MINITVM_WIDGETS=static $(PY) -m nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False \
		--ExecutePreprocessor.store_widget_state=False $(SOLUTIONS)
	$(ONE_STREAM) $(SOLUTIONS)
	$(PY) -m minitvm.edu build

ci-deps: ## install Chromium, which the widget tests need, and bubblewrap, behind which notebooks are graded
	@command -v bwrap >/dev/null || { \
		root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		$$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends bubblewrap \
			|| echo "bubblewrap could not be installed: notebooks are graded behind a weaker wall"; \
	}
	@for name in chromium chromium-browser google-chrome; do \
		command -v $$name && exit; \
	done; \
	root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
	$$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends chromium \
		|| echo "Chromium could not be installed: tests that need it are skipped"

clean: ## remove caches and build outputs (.venv stays)
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -print0 | xargs -0 rm -rf

$(PY):
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit( \
		"minitvm needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0])' || { \
		echo "Name another interpreter, for instance: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make virtual environments: install its venv module"; \
		echo "(Debian, Ubuntu: python3-venv) or name another: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }

$(RUNTIME): pyproject.toml $(OLDEST) | $(PY)
	$(PIP_INSTALL) $(addprefix -c ,$(OLDEST)) -e .
	@touch $@

$(TESTS): pyproject.toml $(OLDEST) | $(PY)
	$(PIP_INSTALL) $(addprefix -c ,$(OLDEST)) -e '.[test,dev]'
	@touch $@ $(RUNTIME)

$(DOCS): pyproject.toml $(OLDEST) | $(PY)
	$(PIP_INSTALL) $(addprefix -c ,$(OLDEST)) -e '.[docs]'
	@touch $@ $(RUNTIME)

# numpy>=2.0 -> numpy==2.0, for what users and the tests import
$(VENV)/oldest.txt: pyproject.toml | $(PY)
	@$(PY) -c 'import re, tomllib; \
		project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		pins = project["dependencies"] + project["optional-dependencies"]["test"]; \
		print(*(re.sub(r"(\[.*\])?>=([^,]+).*", r"==\2", pin) for pin in pins), sep="\n")' > $@
