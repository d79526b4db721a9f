# The verbs of topoloom. Each does its own set-up; whatever takes more than a few lines is Rust in tests/src/bin.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
WASM := wasm32-unknown-unknown
# Built without optimisation: it runs for a second and would be compiled for minutes.
DENY_VERSION := 0.20.2
DENY := $(TARGET_DIR)/tools/bin/cargo-deny
# What `make demo` shows: nothing for the topology, or lending.
SHOW ?=
# How long the parts of `make soak` last, which of them is run (topology, lending, partition; nothing: all), and how often it plays
# each failover after that.
MINUTES ?= 20
PART ?=
FAULTS ?= 50
# How many variations of what goes wrong with lending it plays after that; there are eight.
LENDING ?= 8

.PHONY: help setup bins controlplane build image demo test one lint bench soak

help: ## Show the verbs
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: ## Check the toolchain and add the wasm target
	@command -v cargo >/dev/null || { echo "topoloom: cargo is missing: install Rust with https://rustup.rs and run this again" >&2; exit 1; }
	@test -d "$$(rustc --print target-libdir --target $(WASM))" || rustup target add $(WASM) \
	  || { echo "topoloom: the Rust target $(WASM) is missing and could not be added: run 'rustup target add $(WASM)' where the network reaches static.rust-lang.org" >&2; exit 1; }

# Cargo unifies features over what is selected, so everything here selects the whole workspace: each dependency is built
# once, not once per verb.
bins: setup
	@cargo build --workspace --bins

controlplane: bins
	@$(TARGET_DIR)/debug/controlplane build

build: setup ## Build the host with its plugins, optimised where it computes
	cargo build --release -p topoloom

image: controlplane ## Build and start the OCI image in target/image; VERIFY=1 twice, PLATFORM=amd64 or arm64 only
	@$(TARGET_DIR)/debug/image $(if $(VERIFY),--verify) $(if $(PLATFORM),--platform $(PLATFORM))

demo: setup ## Show everything on a real API server on this machine; SHOW=lending: one cluster lends to another
	@case '$(SHOW)' in ''|topology|lending) ;; *) echo "topoloom: SHOW must be topology or lending, or nothing for topology, got '$(SHOW)'" >&2; exit 1;; esac
	@echo "topoloom: building the host, the plugins and the demo (a few minutes the first time)"
	@cargo build --workspace --bin topoloom --bin demo $(if $(filter lending,$(SHOW)),--bin player)
	@$(TARGET_DIR)/debug/demo $(SHOW)

test: controlplane ## Run everything that must pass; the twenty slowest tests at the end
	@$(TARGET_DIR)/debug/xtask test

# An end-to-end test runs the binary, which cargo does not build for it.
one: setup ## Run the end-to-end tests whose names contain T, as T=drift::
	@test -n "$(T)" || { echo "topoloom: which tests? make one T=NAME" >&2; exit 1; }
	@cargo build --workspace --bin topoloom
	cargo test --workspace --test e2e -- $(T)

lint: bins $(DENY) ## Formatting, lints, licences and sources of dependencies, generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
	$(TARGET_DIR)/debug/xtask check
	@cargo fetch --locked --quiet || { echo "topoloom: cargo-deny reads the manifests of all dependencies, those of other systems too, and they cannot be fetched: run 'cargo fetch --locked' where the network reaches crates.io" >&2; exit 1; }
	$(DENY) --offline check bans licenses sources
	@$(DENY) fetch db 2>/dev/null && $(DENY) check advisories \
	  || { $(DENY) fetch db 2>/dev/null && exit 1; echo "topoloom: the advisory database cannot be reached from here; advisories were not checked"; }

$(DENY):
	@echo "topoloom: building cargo-deny $(DENY_VERSION) once (some minutes)"
	cargo install --quiet --locked --debug --root $(TARGET_DIR)/tools cargo-deny@$(DENY_VERSION)

# The program that is measured is built with what measures it, since cargo bench builds no program.
bench: controlplane ## Print the measured table, side by side with what it is compared to; LENDING_NODES=300 for a small one of lending
	cargo build --profile bench --workspace --bin topoloom --bench bench --bench placing --bench lending
	cargo bench --workspace --bench bench --bench placing --bench lending

soak: controlplane ## Live through MINUTES=20 of trouble (PART=topology, lending, partition), then play each failover FAULTS=50 times
	$(TARGET_DIR)/debug/soak $(MINUTES) $(PART)
	TOPOLOOM_FAULTS=$(FAULTS) cargo test --workspace --test e2e -- failover:: --nocapture --test-threads 2
	TOPOLOOM_FAULTS=$(FAULTS) cargo test --workspace --test e2e -- lending::replicas:: --nocapture
	TOPOLOOM_FAULTS=$(LENDING) TOPOLOOM_OUTAGES=2,10 cargo test --workspace --test e2e -- lending::wrong:: --nocapture --test-threads 2
