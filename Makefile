# `make` alone prints what there is. Nothing here needs root.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools have modules of their own, so that they decide no version of the service's.
BUF  := go tool -modfile=proto/tools/go.mod buf
LINT := go tool -modfile=.tools/go.mod golangci-lint
# It fails on a document that is not OpenAPI 3.
OPENAPI := go -C proto/tools tool validate

# What `make breaking` compares the protocol with.
AGAINST ?= .git\#branch=main

# Arguments of `make demo`: make demo ARGS="--headless --duration 20s --json -"
ARGS ?=

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build ./bin/likewise
	@echo "building likewise; the first time takes some minutes"
	go build -o bin/likewise ./cmd/likewise

.PHONY: demo
demo: build ## Run three regions on a real database; stop with Ctrl-C (ARGS="…")
	@exec ./bin/likewise demo $(ARGS)

.PHONY: test
test: ## Run all that a change must pass, databases included, then the negative controls
	go test -race -count=1 -p 3 ./... # many packages wait more than they work
	go -C proto/tools test -count=1 ./...
	@$(MAKE) --no-print-directory test-negative

.PHONY: test-negative
test-negative: ## Switch each guard off and see that its test notices
	@packages=$$(grep -rl --include='*_test.go' '^//go:build unguarded' cmd regions routing storage deploy e2e \
		| xargs -rn1 dirname | sort -u | sed 's|^|./|'); \
	test -n "$$packages" || { echo "no negative control found: each guard needs one" >&2; exit 1; }; \
	echo go test -race -count=1 -tags unguarded -run Negative $$packages; \
	go test -race -count=1 -tags unguarded -run Negative $$packages \
		| awk '{ print } /no tests to run/ { missing = 1 } END { exit missing }'

.PHONY: test-unit
test-unit: ## Run the tests that need no service, in seconds
	go test ./routing ./regions ./proto/... ./e2e/check ./cmd/...
	go test -run 'Transition|Fold|Classify' ./storage

.PHONY: bench
bench: ## Measure what a call costs the server in each protocol (BENCHMARKS.md)
	go test -run '^$$' -bench Protocols -benchtime 1s ./e2e

.PHONY: generate
generate: ## Generate code and OpenAPI from proto/
	$(BUF) generate

.PHONY: checkgenerate
checkgenerate: ## Fail if the generated code is not what proto/ gives
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BUF) generate -o "$$fresh"; \
	{ diff -r -x '*.proto' "$$fresh/proto/likewise" proto/likewise && diff -r -x '*.go' "$$fresh/proto/openapi" proto/openapi; } \
		|| { echo "generated code is not current: run make generate" >&2; exit 1; }

.PHONY: lint
lint: ## Check the rules of .golangci.yaml and buf.yaml, and the OpenAPI document
	$(BUF) lint
	$(BUF) format --diff --exit-code --path proto/likewise
	$(OPENAPI) ../openapi/openapi.yaml
	$(OPENAPI) ../openapi/openapi.json
	$(LINT) run
	$(LINT) run --build-tags unguarded
	cd proto/tools && go tool -modfile=../../.tools/go.mod golangci-lint run

.PHONY: breaking
breaking: ## Fail if proto/ breaks callers of main (AGAINST=…)
	$(BUF) breaking --against '$(AGAINST)'

.PHONY: fmt
fmt: ## Format Go and protobuf
	$(LINT) fmt
	$(BUF) format --write --path proto/likewise

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
