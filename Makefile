# Each target sets up what it needs: a virtual environment in .venv, with the versions of constraints.txt.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
PEERS := .venv-peers

# State of Dagster; `dagster.yaml` is here.
export DAGSTER_HOME ?= $(CURDIR)

Q ?= What happens to the embeddings when a file is renamed?
CORPUS ?=

# `make demo CORPUS=folder` has a configuration and a state of its own, apart from those of corpora.yaml.
ifneq ($(CORPUS),)
DEMO := .rag_assets/demo/$(shell printf '%s' '$(abspath $(CORPUS))' | cksum | cut -d' ' -f1)
DEMO_ENV := RAG_ASSETS_CONFIG=$(CURDIR)/$(DEMO)/corpora.yaml RAG_ASSETS_HOME=$(CURDIR)/$(DEMO)
endif

.DEFAULT_GOAL := help
.PHONY: help demo ask dev test check format bench bench-quality bench-durability bench-faults bench-scale bench-peers screenshots lock clean purge

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## Index a folder and answer a question: make demo [CORPUS=folder] [Q="..."]
ifneq ($(CORPUS),)
	@mkdir -p $(DEMO)
	@$(DEMO_ENV) $(BIN)/rag-assets init '$(CORPUS)' --force
endif
	@$(DEMO_ENV) $(BIN)/rag-assets ingest; status=$$?; test $$status -ne 1
	@printf '\n> %s\n\n' "$$Q"
	@$(DEMO_ENV) $(BIN)/rag-assets ask -- "$$Q"

ask: $(RUNTIME) ## Answer a question from the published index: make ask Q="..."
	@$(BIN)/rag-assets ask -- "$$Q"

dev: $(DEV) ## Start the Dagster UI and daemon on http://127.0.0.1:3000
	$(BIN)/dagster dev --host 127.0.0.1 --port 3000 --workspace workspace.yaml

test: $(DEV) ## Run all tests
	$(BIN)/python -m pytest

check: $(DEV) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(DEV) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) ## Print the benchmarks: ratios against a baseline in the same run: make bench [ONLY="names"]
	$(BIN)/python -m rag_assets_tests.benchmarks $(if $(ONLY),--only $(ONLY))

bench-quality: $(DEV) ## Print how well passages are found and answers cited: half an hour
	$(BIN)/python -m rag_assets_tests.benchmarks --only chunking_quality retrieval_quality answer_quality conversations

bench-durability: $(DEV) ## Kill an ingest a hundred times and count what is lost: half an hour
	$(BIN)/python -m rag_assets_tests.benchmarks.durability

bench-faults: $(DEV) ## Break a platform in every way that we know, and print what saw it and what mended it: five minutes
	$(BIN)/python -m rag_assets_tests.benchmarks.faults

bench-scale: $(DEV) ## Print what a document and a question cost as a corpus grows: ten minutes: make bench-scale [DOCUMENTS="1000 100000"]
	$(BIN)/python -m rag_assets_tests.benchmarks.scale $(if $(DOCUMENTS),--documents $(DOCUMENTS))

bench-peers: $(DEV) $(PEERS)/.installed ## Print what LlamaIndex, LangChain and CocoIndex send for the same folder
	$(BIN)/python -m rag_assets_tests.benchmarks.peers --python $(PEERS)/bin/python

screenshots: $(DEV) ## Take the pictures of the manual with headless Chromium: three minutes
	$(BIN)/python -m rag_assets_tests.screenshots

lock: ## Renew constraints.txt with the newest versions that pyproject.toml allows
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --editable '.[dev]'
	.venv-lock/bin/pip freeze --exclude-editable > constraints.txt
	rm -rf .venv-lock

clean: ## Remove the environment and caches; keep the index, the vectors and Dagster's history
	rm -rf $(VENV) .venv-lock $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find rag_assets rag_assets_tests -name __pycache__ -type d -prune -exec rm -rf {} +

purge: clean ## Remove everything that was made here, embeddings that were paid for included
	rm -rf .rag_assets history logs schedules storage .logs_queue .telemetry .nux .tmp_dagster_home_*

export Q

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, and $(PYTHON) is older. Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || $(PYTHON) -m virtualenv $(VENV) || uv venv --seed --python $(PYTHON) $(VENV) || \
		{ rm -rf $(VENV); echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(RUNTIME): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing (once, about a minute) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@$(BIN)/python -m compileall -q rag_assets
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing with what development needs (once, about a minute) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m compileall -q rag_assets rag_assets_tests
	@touch $@ $(RUNTIME)

$(PEERS)/.installed: rag_assets_tests/benchmarks/peers/requirements.txt
	@echo "installing the peers (once, about three minutes) ..."
	@$(PYTHON) -m venv $(PEERS) || $(PYTHON) -m virtualenv $(PEERS) || uv venv --seed --python $(PYTHON) $(PEERS)
	@$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
