# Lycosa. `make help` lists what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO      ?= go
TOOLS   := .tools
TOOLBIN := $(TOOLS)/bin
MODULES := proto internal downloader extractor dnser scheduler gateway deploy
SERVICES := downloader extractor dnser scheduler gateway

# Versions of the tools. What is built by make is built from these alone.
BUF_VERSION                := 1.75.0
PROTOC_GEN_GO_VERSION      := v1.36.12
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2
GOLANGCI_LINT_VERSION      := v2.15.0
GRPCURL_VERSION            := v1.9.4
JAEGER_VERSION             := v1.76.0
WARCIO_VERSION             := 2.4.11

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X lycosa.dev/internal/telemetry/buildinfo.version=$(VERSION)
GOBUILD := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'

.PHONY: help
help: ## This list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

# ---- build -----------------------------------------------------------------

.PHONY: build
build: ## Build lycosa and the five services into bin/
	@mkdir -p bin
	$(GOBUILD) -o bin/ ./deploy/cmd/lycosa $(foreach s,$(SERVICES),./$(s)/cmd/$(s))

.PHONY: lycosa
lycosa:
	@mkdir -p bin
	@$(GOBUILD) -o bin/ ./deploy/cmd/lycosa

.PHONY: crawl
crawl: lycosa ## Crawl a site: make crawl URL=https://example.org/ [ARGS='--max-pages 100']
	@test -n "$(URL)" || { echo "make crawl: give a URL: make crawl URL=https://example.org/" >&2; exit 2; }
	@bin/lycosa crawl $(ARGS) "$(URL)"

.PHONY: clean
clean: ## Remove what make has built (not the tools, not a crawl)
	rm -rf bin

# ---- check -----------------------------------------------------------------

.PHONY: test
test: test-deps ## Install what the tests need and run all tests
	. $(TOOLS)/test-env && $(GO) test -timeout 30m work

.PHONY: test-short
test-short: ## Run the tests that need nothing installed and little time
	$(GO) test -short -timeout 10m work

.PHONY: test-deps
test-deps: ## Install what the tests need: web and name servers, real sites, an independent WARC reader
	@WARCIO_VERSION=$(WARCIO_VERSION) deploy/scripts/test-deps.sh $(TOOLS)

.PHONY: fuzz
fuzz: ## Fuzz what CI fuzzes, each for FUZZTIME (60s): TARGETS=all, TARGETS='FuzzHead FuzzScan', KEEP=10 keeps seeds
	deploy/scripts/fuzz.sh $(or $(FUZZTIME),60s) $(or $(TARGETS),ci)

.PHONY: lint
lint: $(TOOLBIN)/golangci-lint $(TOOLBIN)/buf ## Lint Go, protobuf and shell, and check the import directions
	$(TOOLBIN)/golangci-lint run --allow-parallel-runners $(foreach m,$(MODULES),./$(m)/...)
	$(TOOLBIN)/buf lint
	$(TOOLBIN)/buf format --diff --exit-code
	@deploy/scripts/check-imports.sh
	@if command -v shellcheck >/dev/null; then shellcheck -x deploy/scripts/*.sh .ci/run; else echo "shellcheck is not installed: shell scripts are not checked"; fi

.PHONY: generate
generate: $(TOOLBIN)/buf $(TOOLBIN)/protoc-gen-go $(TOOLBIN)/protoc-gen-go-grpc ## Generate code from proto/
	$(TOOLBIN)/buf generate

.PHONY: generate-check
generate-check: generate ## Fail if the generated code that is committed is not what proto/ gives
	@git diff --exit-code --stat -- proto/gen || { echo "generated code differs: commit what 'make generate' makes" >&2; exit 1; }
	@test -z "$$(git status --porcelain -- proto/gen)" || { git status --short -- proto/gen; echo "generated files are not committed" >&2; exit 1; }

.PHONY: breaking
breaking: $(TOOLBIN)/buf ## Compare the contracts with those of the branch main
	$(TOOLBIN)/buf breaking --against '.git#branch=main'

.PHONY: tidy
tidy: ## Tidy the modules' requirements
	@for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) mod tidy) || exit 1; done

# ---- measure ---------------------------------------------------------------

.PHONY: bench
bench: bench-crawl ## Measure all but the frontier: bench-crawl (which gets BENCH_ARGS), bench-fetch, bench-dns
	@$(MAKE) bench-fetch bench-dns BENCH_ARGS=

.PHONY: bench-crawl
bench-crawl: ## Crawl the synthetic web: CPU a page, pages a second, memory; JSON under deploy/bench/results
	$(GO) run ./deploy/bench/cmd/bench -out deploy/bench/results $(BENCH_ARGS)

.PHONY: bench-fetch
bench-fetch: ## CPU of a fetch over HTTP/1.1, HTTP/2, TLS, beside net/http and fasthttp; memory of 10,000 slow servers
	@mkdir -p bin
	$(GO) test -c -o bin/fetch.bench ./downloader/internal/fetch
	$(GO) run ./deploy/bench/cmd/bench-fetch -engine bin/fetch.bench -out deploy/bench/results $(BENCH_ARGS)

.PHONY: torture
torture: build test-deps ## Kill a crawl and a ring 200 times each, also while they write, and cut their connections, at moments of a printed seed: KILLS=200 LYCOSA_E2E_SEED=n
	. $(TOOLS)/test-env && LYCOSA_KILLS=$(or $(KILLS),200) $(GO) test -count=1 -v -timeout 60m -run 'Kill|Cut' ./deploy/e2e

.PHONY: simulate
simulate: ## About two million simulated fetches under every clock, on 10,000 hosts, over days of simulated time
	LYCOSA_SIM=full $(GO) test -count=1 -v -timeout 60m -run 'LawOfEveryClock|NothingStarves' ./scheduler/internal/frontier

.PHONY: bench-frontier
bench-frontier: ## Millions of URLs in the frontier, beside a Go map, Pebble and SQLite: BENCH_ARGS='-urls 1000000,10000000,100000000'
	@mkdir -p bin
	$(GO) test -c -o bin/frontier.bench ./scheduler/internal/frontier
	$(GO) run ./deploy/bench/cmd/bench-frontier -engine bin/frontier.bench -out deploy/bench/results $(BENCH_ARGS)

.PHONY: bench-dns
bench-dns: ## Names a second that the dnser answers, cached and asked of nsd; JSON under deploy/bench/results
	$(GO) run ./dnser/cmd/bench-dns -out deploy/bench/results $(BENCH_ARGS)

# ---- run the services ------------------------------------------------------

.PHONY: up
up: build ## Start the five services on loopback: make up DOWNLOADERS=3
	@DOWNLOADERS=$(or $(DOWNLOADERS),1) deploy/scripts/up.sh

.PHONY: down
down: ## Stop what make up has started
	@deploy/scripts/down.sh

.PHONY: status
status: ## Show what make up has started
	@deploy/scripts/status.sh

.PHONY: jaeger
jaeger: $(TOOLBIN)/jaeger ## Build Jaeger from its Go module (about 10 minutes the first time); make up then starts it

.PHONY: test-jaeger
test-jaeger: build jaeger ## Find one lease's trace through a real Jaeger's query API
	LYCOSA_JAEGER="$(CURDIR)/$(TOOLBIN)/jaeger" $(GO) test -count=1 -timeout 10m -run 'Jaeger' ./deploy/e2e/...

# ---- tools -----------------------------------------------------------------

.PHONY: grpcurl
grpcurl: $(TOOLBIN)/grpcurl ## Build grpcurl, for asking the services by hand (about 3 minutes the first time)

.PHONY: tools
tools: $(TOOLBIN)/buf $(TOOLBIN)/golangci-lint $(TOOLBIN)/grpcurl $(TOOLBIN)/protoc-gen-go $(TOOLBIN)/protoc-gen-go-grpc ## Build all tools

define gotool
$(TOOLBIN)/$(1): $(MAKEFILE_LIST)
	@mkdir -p $(TOOLBIN)
	cd $(TOOLS) && GOWORK=off GOFLAGS=-mod=mod GOBIN="$(CURDIR)/$(TOOLBIN)" $(GO) install $(2)
	@touch $$@
endef
$(eval $(call gotool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION)))
$(eval $(call gotool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC_VERSION)))
$(eval $(call gotool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)))
$(eval $(call gotool,grpcurl,github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL_VERSION)))

# buf is a matter of seconds from npm and of minutes from source.
$(TOOLBIN)/buf: $(MAKEFILE_LIST)
	@mkdir -p $(TOOLBIN) $(TOOLS)/npm-buf
	@if command -v npm >/dev/null && npm install --prefix $(TOOLS)/npm-buf --no-audit --no-fund --no-save --silent @bufbuild/buf@$(BUF_VERSION) && \
	   cp "$$(find $(TOOLS)/npm-buf/node_modules/@bufbuild -path '*buf-*/bin/buf' | head -1)" $@; then :; else \
	   cd $(TOOLS) && GOWORK=off GOFLAGS=-mod=mod GOBIN="$(CURDIR)/$(TOOLBIN)" $(GO) install github.com/bufbuild/buf/cmd/buf@v$(BUF_VERSION); fi
	@touch $@

# Jaeger's go.mod has replace lines, so it is built as a tool of an empty module.
$(TOOLBIN)/jaeger: | $(TOOLS)
	@mkdir -p $(TOOLS)/jaeger $(TOOLBIN)
	cd $(TOOLS)/jaeger && { test -f go.mod || GOWORK=off $(GO) mod init jaeger.tool; } && \
	  GOWORK=off $(GO) get -tool github.com/jaegertracing/jaeger/cmd/jaeger@$(JAEGER_VERSION) && \
	  GOWORK=off CGO_ENABLED=0 $(GO) build -o "$(CURDIR)/$@" github.com/jaegertracing/jaeger/cmd/jaeger

$(TOOLS):
	@mkdir -p $@
