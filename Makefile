# sqlwitness. `make help` lists what there is.

GO          ?= go
BIN         := bin/sqlwitness
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10m
TESTTIMEOUT ?= 8m
BENCHTIMEOUT ?= 8m
MEASURING   := ./bench ./bench/hostile ./bench/speed ./bench/stages ./bench/faults

.PHONY: help build generate test test-kafka test-libpcap lint demo fuzz nightly bench bench-live bench-compare clean record-captures

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

build: ## one static binary, bin/sqlwitness
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -o $(BIN) ./cmd/sqlwitness

# The generated code is committed; another compiler than Debian's 0.17 formats it
# otherwise, that is all.
generate: ## sender/gen-go from sender/audit.thrift; needs thrift-compiler
	rm -rf sender/gen-go
	mkdir sender/gen-go
	cd sender && thrift -r --gen go:package_prefix=sqlwitness/sender/gen-go/ -out gen-go audit.thrift
	rm -rf sender/gen-go/audit/collector-remote
	gofmt -w sender/gen-go

# The rooms run under the race detector; bench runs the release's binary against
# a real server, whose clock the detector would only disturb; -count 1, because the
# cache of tests does not see that program. What measures in bench has the machine
# to itself. As root, tests install the Debian packages they need.
test: ## vet and all tests; as root also the privileged ones
	$(GO) vet ./...
	@(cd bench/flavours/gomysqlserver && $(GO) mod download >/dev/null 2>&1) || echo "test: bench/flavours is skipped, the module proxy is out of reach"
	@failed=0; set -x; \
	$(GO) test -timeout $(TESTTIMEOUT) $(if $(shell command -v gcc),-race) $$($(GO) list ./... | grep -v /bench) || failed=1; \
	$(GO) test -count 1 -timeout $(BENCHTIMEOUT) -p 1 $(MEASURING) || failed=1; \
	$(GO) test -count 1 -timeout $(BENCHTIMEOUT) -p 2 $$($(GO) list ./bench/... | grep -vxF $(MEASURING:./%=-e sqlwitness/%)) || failed=1; \
	exit $$failed

test-kafka: ## the broker, collector and consumer tests at full length (root, Java and Maven)
	$(GO) test -count 1 -timeout 15m ./bench/kafka -v -live 30s -outage 15s

test-libpcap: ## the second live engine; needs libpcap-dev and a C compiler
	@if printf '\043include <pcap.h>\n' | $${CC:-cc} -E - >/dev/null 2>&1; then \
	  $(GO) vet -tags libpcap ./probe ./cmd/... && $(GO) test -race -timeout $(TESTTIMEOUT) -tags libpcap ./probe ./cmd/...; \
	else echo "test-libpcap: skipped, pcap.h or a C compiler is missing (apt-get install libpcap-dev gcc)"; fi

lint: ## gofmt, vet, staticcheck; the build for systems without live capture
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	@if $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then $(GO) run $(STATICCHECK) ./...; \
	else echo "lint: staticcheck skipped, the module proxy is out of reach"; fi

demo: build ## watch it work, in under a minute
	@$(GO) run ./bench/cmd/demo -binary $(BIN)

# Before Go 1.27 go test now and then takes the end of the time itself for a failure,
# without an input that fails (golang.org/issue/75804): that target is tried once more.
fuzz: ## every fuzz target for FUZZTIME (10m)
	@out=$$(mktemp); trap 'rm -f '$$out EXIT; \
	fuzz() { $(GO) test -run '^$$' -fuzz "^$$2$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$1 >$$out 2>&1; result=$$?; cat $$out; return $$result; }; \
	for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; fuzz $$pkg $$target && continue; \
	    grep -q 'context deadline exceeded' $$out && ! grep -q 'Failing input' $$out && fuzz $$pkg $$target || exit 1; \
	  done; \
	done

nightly: fuzz test-libpcap ## the long forms: fuzzing, a million statements and replays, outages of a minute
	$(GO) test -timeout 2h -run '^TestGrammar$$' ./sender -grammar 1000000
	$(GO) test -timeout 4h ./bench/faults -seeds 1000000 -large
	$(GO) test -timeout 1h ./bench/kafka -live 30s -outage 60s

bench: build ## benchmarks of the rooms, then loss and CPU on this machine, other tools beside it (root)
	$(GO) test -run '^$$' -bench . -benchtime 300ms ./...
	$(GO) run ./bench/cmd/losscheck -binary $(BIN)
	$(GO) test ./bench/speed -v -long -count 1 -timeout 20m
	$(MAKE) bench-live

# Both write their sections of bench/RESULTS.md; nobody else should use the machine.
bench-live: build ## other tools on the same load, each stage live: ten minutes, into bench/RESULTS.md (root)
	$(GO) run ./bench/cmd/peers -binary $(BIN)
	$(GO) run ./bench/cmd/stages

bench-compare: ## microbenchmarks of BASE=rev against the work tree, by benchstat
	$(GO) run ./bench/cmd/compare -base "$(BASE)"

clean: ## remove what the above made
	rm -rf bin

record-captures: ## record the clients' captures anew (root)
	$(GO) run ./bench/clients/record
