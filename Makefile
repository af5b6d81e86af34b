# The commands of this repository. Each target is a line or two; what needs more lives in scripts/ or xtask/.

.DEFAULT_GOAL := help
.PHONY: help build run test fmt lint tidy snapshot openapi bench bench-growth acceptance deny ci clean

# Debian keeps pgbouncer in /usr/sbin, which is not on an ordinary user's PATH; the tests start it by name.
export PATH := $(PATH):/usr/sbin

# On CI every failure is wanted, not the first one: see .config/nextest.toml.
NEXTEST_PROFILE := $(if $(CI),ci,default)

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the executable: target/release/jobforge
	cargo build --release -p jobforge

run: ## Install what is missing, build, and run everything on a private Postgres
	@scripts/setup run
	@$(MAKE) --no-print-directory build
	target/release/jobforge dev

# House rules come last: a file too long must not hide what the tests say.
test: ## All tests on real Postgres servers, doc tests, a smoke of each bench workload, snapshot, house rules
	@scripts/setup test
	cargo nextest run --workspace --profile $(NEXTEST_PROFILE)
	cargo test --quiet --workspace --doc
	cd bench && cargo nextest run
	cargo xtask snapshot --check
	@$(MAKE) --no-print-directory tidy

fmt: ## Format every crate, the bench's own workspace too
	cargo fmt --all
	cargo fmt --manifest-path bench/Cargo.toml

lint: ## Formatting and clippy, warnings are errors
	cargo fmt --all --check
	cargo fmt --manifest-path bench/Cargo.toml --check
	cargo clippy --workspace --all-targets -- -D warnings

tidy: ## House rules that no other tool checks (xtask/src/tidy/)
	cargo xtask tidy

snapshot: ## Write the schema's snapshot anew: sql/schema.snapshot.sql
	@scripts/setup test
	cargo xtask snapshot

openapi: ## Write the description of the HTTP API anew: docs/openapi.json
	cargo run --quiet -p jobforge -- openapi > docs/openapi.json.new
	mv docs/openapi.json.new docs/openapi.json

bench: ## Run the benchmarks: make bench ARGS="..."
	@scripts/setup run
	cd bench && cargo run --release -- $(ARGS)

bench-growth: ## W6 to W9, half an hour and 15 GB of disk: growth, fairness, idling, looking; redraws docs/bench
	@scripts/setup run
	cd bench && cargo run --release -- --only W6,W7,W8,W9 --plots ../docs/bench --json ../docs/bench/growth.json $(ARGS)

acceptance: build ## Run every story in acceptance/ against the built executable
	@scripts/setup stories
	acceptance/run

# Advisories are not in `make ci`: they need the network, and appear without any change of ours.
deny: ## Licences, sources and advisories of the dependencies (needs: scripts/setup ci)
	cargo deny check

ci: lint test ## Lint, test, and licences and sources where cargo-deny is installed
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level error check bans licenses sources; \
	else echo "deny skipped: cargo-deny is not installed (scripts/setup ci)"; fi

clean: ## Remove build output; private databases in .jobforge stay
	cargo clean
	rm -rf bench/target
