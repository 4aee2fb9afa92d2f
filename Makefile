# What needs set-up; everything else is `python pipeline.py <verb>`.
PYTHON ?= python3
PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: compile help setup run test e2e e2e-kfp lint lock images push deploy undeploy sandbox gpu-check bench-demo bench-intervals bench-sandbox bench-train
export REGISTRY TAG KFP_ENDPOINT BASE_IMAGE PIP_INDEX_URL TORCH_BACKEND TORCH_INDEX SITE_PACKAGES BUILD_OPTIONS OVERLAY NAMESPACE MINIO_IMAGE

# Settled once, so that what is pushed is what was built.
ifneq (,$(filter compile images push deploy undeploy,$(MAKECMDGOALS)))
ifneq (fine,$(shell $(PYTHON) cli/bootstrap.py --check && echo fine))
$(error no Python that will do)
endif
TAG := $(or $(TAG),$(shell $(PYTHON) -m cli.images tag))
endif

help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## Install everything into .venv (the other targets do it too)
	@$(PYTHON) cli/bootstrap.py

run: setup ## Run the whole pipeline on the demo, on this machine
	@$(PY) pipeline.py local --params demo/parameters.toml $(ARGS)

test: setup ## Run the hermetic tests
	@HF_HUB_OFFLINE=1 $(PY) -m pytest -n auto --dist loadfile $(ARGS)

e2e: setup ## The tests on the cluster of kubectl, timed: make e2e REGISTRY=ghcr.io/me
	@$(PY) -m tests.e2e cluster $(ARGS)

e2e-kfp: setup ## The same on Kubeflow Pipelines: make e2e-kfp REGISTRY=… KFP_ENDPOINT=http://localhost:8080
	@$(PY) -m tests.e2e kfp $(ARGS)

lint: setup ## Check style and types
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy

compile: setup ## Write the pipeline for Kubeflow Pipelines, build/pipeline.yaml
	@$(PY) pipeline.py compile -o build/pipeline.yaml $(ARGS)

lock: setup ## Resolve the requirements again and write the pins
	@$(PYTHON) cli/bootstrap.py --lock

images: ## Build and check all images: make images REGISTRY=ghcr.io/me (TAG is the commit)
	@$(PYTHON) -m cli.images build $(ARGS)

push: ## Push them: make images push REGISTRY=ghcr.io/me
	@$(PYTHON) -m cli.images push $(ARGS)

deploy: ## Deploy to the cluster of kubectl: make deploy REGISTRY=ghcr.io/me OVERLAY=local,minio
	@$(PYTHON) -m cli.deploy up

undeploy: ## Take everything away from the cluster again
	@$(PYTHON) -m cli.deploy down

sandbox: setup ## Run the sandbox alone: make sandbox PORT=8080
	@cd images/sandbox && ../../$(PY) -m sandbox --host 127.0.0.1 --port $(or $(PORT),8080) --workers 2

bench-demo: setup ## How surely the demo learns: ten seeds and a control (20 runs)
	@$(PY) -m bench.demo $(ARGS)

bench-intervals: setup ## Which 95 % interval covers, in simulated evaluations of 20 to 500 problems
	@$(PY) -m bench.intervals $(ARGS)

bench-sandbox: setup ## How fast and how surely the sandbox judges, beside its peers
	@$(PY) -m bench.sandbox $(ARGS)

bench-train: setup ## What a training step costs beside the same TRL loop written plainly
	@$(PY) -m bench.train $(ARGS)

gpu-check: setup ## Whether memory and speed on this machine's GPU are as planned (8 minutes; ARGS=--tiny on a CPU)
	@HF_HUB_OFFLINE=1 $(PY) -m bench.gpu_check $(ARGS)
