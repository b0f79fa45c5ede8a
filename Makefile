# Two commands to begin with: `make demo` and `make test`. Everything lives in .venv/ and var/.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo serve test test-postgres faults bench lint openapi clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: .venv/run.stamp  ## a new learner runs the graded lab tasks and answers the questions, over REST, on this machine
	$(BIN)/python -m demo

serve: .venv/run.stamp  ## web and worker on 127.0.0.1:8000 until Ctrl-C (PORT=… for another port)
	$(BIN)/python manage.py bootstrap --people
	$(BIN)/python manage.py serve --port $(or $(PORT),8000)

test: .venv/dev.stamp  ## all tests that can run on this machine
	$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadgroup $(ARGS)

test-postgres: .venv/dev.stamp  ## the suites of quiz and labs on PostgreSQL (STAFFLOOP_TEST_DATABASE_URL)
	STAFFLOOP_TEST_ON_POSTGRES=1 $(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadgroup tests/labs tests/quiz \
		--ignore tests/labs/test_serve.py --ignore tests/labs/test_runner.py --ignore tests/labs/test_warm_server.py $(ARGS)

faults: .venv/dev.stamp  ## damage a site while N runs flow, and count (N=20 TRANSPORT=embedded|redis|rabbitmq SEED=1)
	$(BIN)/python -m tests.faults --runs $(or $(N),20) --transport $(or $(TRANSPORT),embedded) --seed $(or $(SEED),1)

bench: .venv/dev.stamp  ## the measurements of docs/benchmarks.md, as ratios in one run (TRACE=… recorded sessions to replay)
	$(BIN)/python -m tests.bench $(TRACE)

lint: .venv/dev.stamp  ## ruff, mypy, migrations, OpenAPI drift
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file var/openapi.yaml
	@cmp -s var/openapi.yaml docs/rest/openapi.yaml || { echo "docs/rest/openapi.yaml is out of date: make openapi"; exit 1; }

openapi: .venv/dev.stamp  ## write docs/rest/openapi.yaml anew
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/rest/openapi.yaml

# torch has a CPU build of some 200 MB beside a CUDA build of gigabytes: where pip offers both, see the README.
.venv/run.stamp: requirements.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/dev.stamp: requirements-dev.txt .venv/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean:  ## forget the data of `make serve` and `make demo`
	rm -rf var
