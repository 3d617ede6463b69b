# Everything that a fresh machine with Go, git, make and a C compiler needs:
#   make demo   builds shardsched and runs its main job on the embedded default
#   make install   puts shardsched where Go puts programs
#   make test   passes all tests, checks that generated code is current, lints
#   make playground   schedules on a real kube-apiserver with hollow nodes, for kubectl
GO       ?= go
TOOL     := $(GO) tool -modfile=.ci/tools.mod
MODULE   := github.com/shardsched/shardsched
# Folders of packages that start no goroutine, hold no lock and have no channel: all their tests run without the race
# detector, which makes them take 5 to 20 times as long and would see nothing. All others run under it.
# cmd/stages_test.go holds this list to the code.
PURE   := cmd cmd/internal/client cmd/internal/kubeflags cmd/internal/openb cmd/internal/picture cmd/internal/plainjson \
	cmd/internal/readonly cmd/internal/summary \
	cmd/internal/whatif cmd/internal/workload cmd/shardsched/app cmd/shardsched-plugins/load coordinator/answers coordinator/census \
	coordinator/cluster coordinator/compile coordinator/config coordinator/config/policy coordinator/count coordinator/domains \
	coordinator/groups coordinator/objects coordinator/placement coordinator/preempt/units coordinator/queue \
	coordinator/selector coordinator/storage \
	deploy internal/lru internal/testkit/build internal/testkit/claims proto/shardsched/v1 scorer scorer/devices
# Of these, tests run again without it: of files that it leaves out, which bound what is allocated, and of those whose tests are smaller with -short.
AGAIN  := cmd/internal/cli coordinator
# True where a Chromium is in PATH.
CHROMIUM := (for name in chromium chromium-browser google-chrome chrome; do command -v $$name >/dev/null && exit; done; false)

# Every package is compiled once, with the flags that images are made with; again only for the race detector, which needs C.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(GOFLAGS)
race: export CGO_ENABLED := 1

.PHONY: build install demo playground test lint breaking generate generated chart unit race bench-module test-browser screenshots deploy-test test-versions oracle skew golden image release soak chaos bench bench-million bench-cluster hostile fuzz clean

build:
	@echo 'building bin/shardsched: some 3 minutes the first time, seconds after that'
	$(GO) build -o bin/shardsched ./cmd/shardsched

# Into GOBIN, or GOPATH/bin: shardsched can be typed where that folder is in PATH.
install:
	@echo 'installing shardsched: some 3 minutes the first time, seconds after that'
	$(GO) install ./cmd/shardsched
	@bin=$$($(GO) env GOBIN); bin=$${bin:-$$($(GO) env GOPATH | cut -d: -f1)/bin}; echo "$$bin/shardsched"; \
	  case ":$$PATH:" in *":$$bin:"*) ;; *) echo "it is not in PATH yet: export PATH=\"$$bin:\$$PATH\"";; esac

# GPUs by claims of devices: make demo DEMO=--devices. It ends when all is scheduled; to go on serving, so that it can be asked:
# make demo DEMO=--exit-when-idle=false
demo: build
	./bin/shardsched up --demo --exit-when-idle $(DEMO)

# A control plane on loopback, until Ctrl-C: make playground PLAYGROUND='-demo -nodes 100'
playground:
	@mkdir -p bin
	@cd bench && $(GO) run ./cluster/controlplane -kubeconfig $(CURDIR)/bin/playground.kubeconfig $(PLAYGROUND)

test: generated lint breaking unit race bench-module deploy-test oracle

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$'))" || { echo 'not gofmt-ed:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@long=$$(git ls-files '*.go' | grep -v '_test\.go$$\|\.pb\.go$$' | LC_ALL=C.UTF-8 xargs grep -nE '^.{141}'); \
	  test -z "$$long" || { echo "longer than 140 columns:"; echo "$$long"; exit 1; }
	$(TOOL) buf lint
	$(GO) vet ./...
	$(GO) vet -tags noetcd ./cmd/internal/cli
	$(TOOL) staticcheck ./...

# The wire may only grow: since the last release, or since another commit, make breaking BASE=v0.1.0.
breaking:
	@base='$(BASE)'; base=$${base:-$$(git tag --list 'v*' --merged HEAD --sort=-v:refname | head -n 1)}; \
	if [ -z "$$base" ]; then echo 'breaking: there is no release yet (no tag v…) that messages have to stay compatible with'; else \
	  echo "breaking: messages since $$base" && $(TOOL) buf breaking --against ".git#ref=$$base"; fi

generate:
	$(TOOL) buf generate

# The committed code must be what the proto files give.
generated:
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	$(TOOL) buf generate -o "$$tmp" && \
	for f in $$(cd "$$tmp" && find . -name '*.pb.go'); do \
	  cmp "$$tmp/$$f" "$$f" || { echo "$$f is not current: run make generate"; exit 1; }; \
	done

# deploy/kustomize and deploy/policy, of deploy/chart.
chart:
	cd bench && $(GO) run ./deploy/chart/render -deploy ../deploy

unit:
	$(GO) test $(addprefix ./,$(PURE))
	for folder in $(AGAIN); do \
	  $(GO) test -run "^($$(sed -n 's/^func \(Test[A-Za-z0-9]*\).*/\1/p' $$(grep -lE '^//go:build !race|testing\.Short\(\)' $$folder/*_test.go) | paste -sd'|'))$$" ./$$folder || exit 1; \
	done

race:
	$(GO) test -race -short -timeout 20m $$($(GO) list ./... | grep -vxF "$$(printf '$(MODULE)/%s\n' $(PURE))")

# -count=1: the tests build the product themselves, which go's cache of results can't see.
# What takes minutes to build is built first: tests measure time.
bench-module:
	@$(CHROMIUM) || echo 'SKIP tests of pages in a browser: no Chromium in PATH; make test-browser installs it'
	cd bench && $(GO) vet ./... && $(GO) run ./cluster/controlplane -build && $(GO) test -count=1 -timeout 20m $$($(GO) list ./... | grep -v '/oracle\|/bench/deploy/')

# Pages in a Chromium. bench-module tests them, too, where one is in PATH; here Debian's is installed where none is.
test-browser:
	@$(CHROMIUM) || { \
	  command -v apt-get >/dev/null || { echo 'test-browser: want chromium in PATH; there is no apt-get to install it'; exit 1; }; \
	  as=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$as apt-get update -q && $$as apt-get install -y -q --no-install-recommends chromium fonts-noto-core; }
	cd bench && TEST_BROWSER=1 $(GO) test -count=1 -timeout 15m ./internal/browser ./cluster/console

# The pictures of the documents, docs/images/console-*.png: one or some of them, make screenshots ONLY=overview
screenshots:
	cd bench && $(GO) run ./cluster/console -out ../docs/images -only '$(ONLY)'

# What is deployed, on a real API server.
deploy-test:
	cd bench && $(GO) run ./cluster/controlplane -build && $(GO) test -count=1 -timeout 8m ./deploy/...

# Surfaces, leadership and black boxes on the kube-apiservers of older versions, but for what their files except
# name: make test-versions VERSIONS=v1.33. Building an API server takes some minutes the first time.
VERSIONS ?= v1.33 v1.34 v1.35
test-versions:
	cd bench && for v in $(VERSIONS); do echo "kube-apiserver $$v"; \
	  except=$$(sed -n 's/^\([^# ][^ ]*\) .*/\1/p' deploy/versions/$$v/except | paste -sd'|'); \
	  TESTBED_KUBERNETES=$$v $(GO) run ./cluster/controlplane -build && TESTBED_KUBERNETES=$$v $(GO) test -count=1 -timeout 20m \
	    $${except:+-skip "$$except"} ./cluster/surfaces ./cluster/leadership ./cluster/blackbox/... ./deploy/versions || exit 1; \
	done

# Every decision against upstream's own plugins.
oracle:
	cd bench && $(GO) test -timeout 20m ./judge/oracle/...

# Coordinators and workers rolled from one version to another and back, one by one: from the last release, make skew BASE=v0.1.0, or
# without BASE from this version with other rules. Every decision is judged.
skew:
	cd bench && $(GO) test -count=1 -v -timeout 30m ./cluster/e2e -run MixedVersions $(if $(BASE),-base $(BASE))

# What this version stores, for later ones to be held to: make golden VERSION=v0.2.0
golden:
	$(GO) test -count=1 -run StoredByEachRelease ./coordinator/journal ./coordinator/record ./coordinator/standalone/store -golden $(VERSION)

# Images of the commit, plain and slim, for linux/amd64 and linux/arm64, without a container engine: in bin/image as an OCI layout, or
# pushed, make image PUSH=registry.example.com/shardsched:v0.1.0
image:
	cd bench && $(GO) run ./deploy/release image -out $(CURDIR)/bin/image $(if $(PUSH),-push $(PUSH))

# All files of a release, in dist/: RELEASING.md. With a database for govulncheck: make release VERSION=v0.1.0 GOVULNDB=file:///srv/vulndb
release:
	cd bench && GOVULNDB='$(GOVULNDB)' $(GO) run ./deploy/release dist -version '$(VERSION)' -out $(CURDIR)/dist

# The same with fresh seeds for as long as wanted: make soak SOAK=10m. A scenario that differs is
# made smaller and written to soak/, and how to see it again is printed. Pod groups: make soak FAMILIES=groups
SOAK     ?= 5m
FAMILIES ?= evaluated
soak:
	cd bench && $(GO) run ./judge/conform -first 0 -seeds 1000000000 -for $(SOAK) -families $(FAMILIES) -out $(CURDIR)/soak

# 2,000 nodes and 10,000 pods on a real API server, of which each part is killed in turn and some at once, and all
# that was written is audited: make chaos SEED=2 ROUNDS=5; and gangs among them, for ten minutes
SEED   ?= 1
ROUNDS ?= 3
GANGS  ?= 10m
chaos:
	cd bench && $(GO) test -count=1 -v -timeout 60m ./cluster/chaos -run NothingIsLost -nodes 2000 -pods 10000 -rate 60 -rounds $(ROUNDS) -seed $(SEED)
	cd bench && $(GO) test -count=1 -v -timeout 60m ./cluster/chaos -run Gangs -gangs $(GANGS) -seed $(SEED)

# Figures, not tests: on a machine that does nothing else. make bench DECIDE='-workloads basic -nodes 5000'
bench: build
	$(GO) test -run '^$$' -bench . -benchmem ./scorer/... ./coordinator/... ./worker/... ./cmd/internal/cli
	cd bench && $(GO) run ./measure/trace
	cd bench && $(GO) run ./measure/decide $(DECIDE)
	cd bench && $(GO) run ./measure/scale

# Ours alone on a million nodes, which takes a few minutes. What the heap needs is more than MEMORY only where it must.
MEMORY ?= 6GiB
bench-million:
	cd bench && GOMEMLIMIT=$(MEMORY) $(GO) run ./measure/decide -nodes 1000000 -shards 122 -pods 1000000 -placed 0 -workloads basic -sides workers -limit 10m -sample 0 -out results/decide-million $(DECIDE)

# kube-scheduler and ours on a real API server, the same nodes and pods: make bench-cluster
# CLUSTER='-runs 3 -workloads basic'. All of it takes three quarters of an hour a run.
bench-cluster:
	cd bench && $(GO) run ./measure/drain $(CLUSTER)

# Attacks by somebody who may create pods in one namespace, on a real API server with 5,000 nodes, and what they do to
# others' pods, ours and kube-scheduler side by side: make hostile HOSTILE='-attacks absent-keys -nodes 20000', or, for
# memory, HOSTILE='-churn 1h -sides ours'. All of it takes three quarters of an hour; it fails where ours does not stand an attack.
hostile:
	cd bench && $(GO) run ./cluster/hostile $(HOSTILE)

# Every fuzz target for a while: make fuzz FUZZTIME=1m
FUZZTIME ?= 20s
fuzz:
	@for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
	    echo "$$(dirname $$file) $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./$$(dirname $$file) || exit 1; \
	  done; \
	done

clean:
	rm -rf bin dist soak
