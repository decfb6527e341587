# Every target sets up what it needs by itself. What a fresh machine must have: git, make, Python 3.11, and for the tests Java 17, Maven, Node 20 and Go 1.26.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(or $(shell command -v python3.11),python3)
PYTEST_ARGS ?=
NIGHT ?=
COMMANDS ?= 100000
UV_VERSION := 0.13.8

VENV := .venv/.installed
BENCH_VENV := .venv-bench/.installed
KAFKA := .cache/kafka/.installed
CLIENTS := $(addprefix .cache/clients/,node/.installed go/.installed java/.installed ruby/.installed)
LINEARIZABILITY := .cache/linearizability/.installed
APPLICATIONS := .cache/applications/.installed
OUTAGES := $(addprefix .cache/outages/,node/.installed go/.installed java/.installed ruby/.installed)
S3 := .cache/s3/.installed
BROUGHT := $(KAFKA) $(CLIENTS) $(LINEARIZABILITY) $(OUTAGES) $(S3)
TOOLS := $(BROUGHT) $(APPLICATIONS)
UV := .cache/uv/bin/uv

say = @printf '\033[1m==> %s\033[0m\n' '$(1)'

# $(call need,COMMAND THAT SUCCEEDS IF IT IS THERE,WHAT,DEBIAN PACKAGE): root gets the package, others the line to type.
define need
@$(1) >/dev/null 2>&1 || { \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    echo '==> $(2) is missing: apt-get install $(3)'; \
    flock /tmp/slotlog-apt.lock sh -c 'apt-get update -qq && apt-get install -qq -y --no-install-recommends $(3)'; \
  else echo 'make: $(2) is missing. Type:  sudo apt-get install $(3)' >&2; exit 1; fi; }
endef

# $(call venv,DIRECTORY,LOCK): a virtual environment with exactly the locked packages, and this project editable.
# Python compiles what is imported when it is first: to compile all that comes takes pip a quarter of its time.
define venv
$(call need,$(PYTHON) -c 'import ensurepip',Python with venv,python3-venv)
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: Python 3.11 or newer is needed, $(PYTHON) is " + sys.version)'
@$(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r $(2)
@$(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --no-build-isolation --editable .
@touch $(1)/.installed
endef

# $(call lock,NAME,GROUPS,ALONE): requirements/NAME.txt, with hashes, for every platform. The benchmarks' lock stands apart: their rival holds some packages back.
define lock
@echo 'requirements/$(1).txt'
@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes $(if $(UPGRADE),--upgrade) \
  --custom-compile-command 'make lock' $(if $(3),,pyproject.toml) $(2) --output-file requirements/$(1).txt
endef

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(VENV) ## Make .venv with the locked packages and slotlog itself
	@echo 'slotlog is installed: .venv/bin/slotlog --help'
	@.venv/bin/python -c 'from engine import native; native.FITS or print("The part in C was not built, so events are applied by Python alone, at half the speed: apt-get install gcc libc6-dev; touch engine/native/hot.h; make install")'

.PHONY: demo
demo: $(VENV) ## Run the main job on a month of real flights: no broker needed
	@.venv/bin/slotlog demo --keep

.PHONY: test
test: $(VENV) $(TOOLS) ## Run all tests, with a real Kafka broker and a real oracle (PYTEST_ARGS='-k name')
	$(call need,redis-benchmark --version,redis-cli and redis-benchmark,redis-tools)
	$(call need,redis-server --version,the Redis server,redis-server)
	$(call need,prometheus-redis-exporter --version,the exporter of Redis metrics,prometheus-redis-exporter)
	$(call need,promtool --version,Prometheus with promtool,prometheus)
	$(call need,systemd-analyze --version,the checker of systemd units,systemd)
	$(call need,test -e /usr/share/i18n/locales/de_DE,the sources of locales,locales)
	$(call need,curl --version,curl,curl)
	$(call need,cc --version,a C compiler,gcc libc6-dev)
	$(call need,chromium --version,Chromium for the test of the status page,chromium)
	$(call say,pytest)
	@.venv/bin/python -m tests $(PYTEST_ARGS)

.PHONY: nightly
nightly: $(VENV) $(TOOLS) ## Run the large doses of the tests, one after the other, also when one fails (NIGHT='group streams': these alone; COMMANDS=20000; NIGHT_SEED=20261129: the draws of that night)
	$(call need,redis-server --version,the Redis server,redis-server)
	$(call need,cc --version,a C compiler,gcc libc6-dev)
	$(call need,test -e /usr/share/i18n/locales/de_DE,the sources of locales,locales)
	@COMMANDS=$(COMMANDS) NIGHT_SEED=$(NIGHT_SEED) .venv/bin/python -m tests.nightly $(NIGHT)

.PHONY: lint
lint: $(VENV) ## Style, format, strict types, import directions
	$(call say,ruff)
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	$(call say,mypy --strict)
	@.venv/bin/mypy
	$(call say,import directions)
	@.venv/bin/lint-imports --cache-dir .cache/imports

.PHONY: format
format: $(VENV) ## Let ruff format the code and mend what it can
	@.venv/bin/ruff check --fix
	@.venv/bin/ruff format

.PHONY: bench
bench: $(BENCH_VENV) $(KAFKA) ## Measure against the floor, Quix Streams and Valkey (BENCH_ARGS='--help')
	$(call need,redis-benchmark --version,redis-benchmark,redis-tools)
	@.venv-bench/bin/python -m benchmarks $(BENCH_ARGS)

.PHONY: soak
soak: $(VENV) ## Write keys that live 2 s for five minutes, and see whether disk and memory level off (SOAK_ARGS)
	@.venv/bin/python -m benchmarks.cleaning.soak $(SOAK_ARGS)

.PHONY: kafka
kafka: $(KAFKA) ## Get the Kafka jars that the tests start a broker from

.PHONY: clients
clients: $(CLIENTS) ## Get the Redis clients of other languages that the tests run

.PHONY: histories
histories: $(LINEARIZABILITY) ## Build the checker of histories that the tests use

.PHONY: tools
tools: $(TOOLS) ## Get or build all that the tests run beside slotlog

.PHONY: brought
brought: $(BROUGHT) ## As tools, without what needs Python: beside `make install`

.PHONY: docs
docs: $(VENV) ## Write what comes from the code anew: the tables in docs/, the dashboards
	@.venv/bin/python -m tests.docs
	@.venv/bin/python -m dashboards.build

.PHONY: lock
lock: $(UV) ## Write requirements/*.txt anew from pyproject.toml (UPGRADE=1: newest versions)
	$(call lock,run,--extra server)
	$(call lock,dev,--group dev --extra server --extra tracing --constraints requirements/run.txt)
	$(call lock,build,--group build --constraints requirements/dev.txt,without the project)
	$(call lock,bench,--group bench --extra server)
	$(call lock,applications,--group applications --extra server)

.PHONY: clean
clean: ## Remove everything that make has brought, the demo's data too; not what else lies in .data
	@rm -rf .venv .venv-bench .cache .data/demo build dist *.egg-info .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

NATIVE := $(wildcard engine/native/*.c engine/native/*.h slotlog/log/kafka/*.c)

$(VENV): requirements/dev.txt pyproject.toml $(NATIVE)
	$(call say,$(@D): installing the locked packages)
	$(call venv,.venv,requirements/dev.txt)

$(BENCH_VENV): requirements/bench.txt pyproject.toml $(NATIVE)
	$(call say,$(@D): installing the locked packages of the benchmarks)
	$(call venv,.venv-bench,requirements/bench.txt)

$(APPLICATIONS): requirements/applications.txt pyproject.toml
	$(call say,$(@D): installing the locked applications that the tests run)
	$(call venv,.cache/applications,requirements/applications.txt)

$(KAFKA): tests/real/kafka/pom.xml
	$(call need,java -version,Java,openjdk-17-jre-headless)
	$(call need,mvn -version,Maven,maven)
	$(call say,$(@D): getting the Kafka jars from Maven Central)
	@rm -rf $(@D)
	@mvn -B -ntp -q -C -Dstyle.color=never -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

.cache/clients/node/.installed: tests/clients/node/package.json tests/clients/node/package-lock.json
	$(call need,npm --version,Node,nodejs npm)
	$(call say,$(@D): getting the Redis clients of Node)
	@mkdir -p $(@D) && cp $^ $(@D)
	@npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

.cache/clients/go/.installed: $(wildcard tests/clients/go/go.* tests/clients/go/*/*.go)
	$(call need,go version,Go,golang-go)
	$(call say,$(@D): getting the Redis client of Go and building the programs that use it)
	@GOMODCACHE=$(CURDIR)/$(@D)/modules go build -C $(<D) -modcacherw -buildvcs=false -o $(CURDIR)/$(@D)/ ./...
	@touch $@

# One Maven at a time: they share a repository, which does not lock.
.cache/clients/java/.installed: tests/clients/java/pom.xml | $(KAFKA)
	$(call need,javac -version,the Java compiler,openjdk-17-jdk-headless)
	$(call need,mvn -version,Maven,maven)
	$(call say,$(@D): getting the Redis clients of Java from Maven Central)
	@rm -rf $(@D)
	@mvn -B -ntp -q -C -Dstyle.color=never -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

.cache/clients/ruby/.installed:
	$(call need,ruby -e 'require "redis"',the Redis client of Ruby,ruby-redis)
	@mkdir -p $(@D) && touch $@

.cache/outages/node/.installed: tests/applications/node/package.json tests/applications/node/package-lock.json
	$(call need,npm --version,Node,nodejs npm)
	$(call say,$(@D): getting the Node libraries that are run through an outage)
	@mkdir -p $(@D) && cp $^ $(@D)
	@npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

.cache/outages/go/.installed: $(wildcard tests/applications/go/go.* tests/applications/go/*/*.go)
	$(call need,go version,Go,golang-go)
	$(call say,$(@D): getting the Go libraries that are run through an outage and building their programs)
	@GOMODCACHE=$(CURDIR)/$(@D)/modules go build -C $(<D) -modcacherw -buildvcs=false -o $(CURDIR)/$(@D)/ ./...
	@touch $@

.cache/outages/java/.installed: tests/applications/java/pom.xml $(wildcard tests/applications/java/*.java) | .cache/clients/java/.installed
	$(call need,javac -version,the Java compiler,openjdk-17-jdk-headless)
	$(call need,mvn -version,Maven,maven)
	$(call say,$(@D): getting the Java libraries that are run through an outage from Maven Central and compiling their programs)
	@rm -rf $(@D)
	@mvn -B -ntp -q -C -Dstyle.color=never -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)
	@javac -encoding UTF-8 -cp '$(@D)/*' -d $(@D)/programs $(filter %.java,$^)
	@touch $@

.cache/outages/ruby/.installed:
	$(call need,sidekiq --version,Sidekiq,ruby-sidekiq)
	@mkdir -p $(@D) && touch $@

$(LINEARIZABILITY): $(wildcard tests/linearizability/checker/*)
	$(call need,go version,Go,golang-go)
	$(call say,$(@D): getting porcupine and building the checker of histories)
	@mkdir -p $(@D)
	@GOMODCACHE=$(CURDIR)/.cache/go go build -C $(<D) -modcacherw -buildvcs=false -o $(CURDIR)/$(@D)/checker .
	@touch $@

$(S3): $(wildcard tests/real/s3/go.*)
	$(call need,go version,Go,golang-go)
	$(call say,$(@D): getting versitygw and building it: the S3 server of the tests of snapshots)
	@mkdir -p $(@D)
	@GOMODCACHE=$(CURDIR)/.cache/go go build -C $(<D) -modcacherw -buildvcs=false -o $(CURDIR)/$(@D)/ github.com/versity/versitygw/cmd/versitygw
	@touch $@

$(UV):
	@$(PYTHON) -m venv .cache/uv
	@.cache/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
