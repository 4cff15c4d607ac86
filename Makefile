# The only list of commands. `make demo` and `make test` are all a new user needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
N ?= 20000

.PHONY: help ready check test bench soak campaign mutants captures demo cluster images rpm pins

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

ready: ## install what the project needs (quiet when it is there)
	@tools/bootstrap.sh

check: ready ## lint, types, borders, unit tests; under a minute
	@$(BIN)/ruff format --check -q . || { echo 'run: .venv/bin/ruff format'; exit 1; }
	@$(BIN)/ruff check -q .
	@tools/check.sh

test: check ## everything; with HARVEST_CAPTURES also the captures of real servers
	@tools/bootstrap.sh tests
	@tools/test.sh

soak: ready ## the long forms of the tests
	@tools/bootstrap.sh tests
	@$(BIN)/pytest -q -s tests/soak

bench: ready ## what a sweep costs, beside telegraf and cat, in one run
	@$(BIN)/python tests/bench/run.py

campaign: ready ## N random histories of a simulated site against the accounting; CLIENTS=1: of its clients' counters; RELAYS=1: of relays to heads
	@PYTHONPATH=tests:tools $(BIN)/python -m campaign.runner $(N) $(if $(CLIENTS),--clients) $(if $(RELAYS),--relays)

mutants: ready ## each mutant of the accounting must turn the test red that it names
	@$(BIN)/python tools/mutants.py

captures: ready ## look at the demo in a terminal, and write what is seen into docs/
	@tools/bootstrap.sh tests
	@PYTHONPATH=tools:tests $(BIN)/python tests/cli/captures.py

pins: ready ## compile requirements/ again from pyproject.toml
	@tools/pin.sh

demo: ready ## the whole of Harvest on a simulated Lustre site; FOR=30 ends by itself and compares every total
	@PYTHONPATH=tools $(BIN)/python -m demo $(if $(FOR),--for $(FOR))

cluster: ready ## a Kubernetes to try things in: of HARVEST_TEST_KUBECONFIG, else kind's, else a control plane of our own
	@PYTHONPATH=tests:tools $(BIN)/python -m support.kubernetes

images: ready ## container images of the programs, in one archive in dist/; FRESH=1: on today's Debian packages
	@tools/bootstrap.sh images
	@PYTHONPATH=tools $(BIN)/python -m packing images $(if $(FRESH),--fresh)

rpm: ready ## packages of the agent for EL8, EL9 and EL10, x86_64 and aarch64, in dist/
	@tools/bootstrap.sh rpm
	@PYTHONPATH=tools $(BIN)/python -m packing rpm
