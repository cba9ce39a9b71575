# Hollowfleet is built from source with Go, git and make alone: every tool comes through Go modules, pinned in
# hack/tools/go.mod, and Kubernetes itself is compiled in agent/simulator. "make help" lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Scripts that call go have the same settings from the same file. Nothing else here changes how a package is compiled.
go-setting = $(shell . hack/goenv.sh; echo "$$$(1)")
export CGO_ENABLED := $(call go-setting,CGO_ENABLED)
export GOWORK := $(call go-setting,GOWORK)
export GOFLAGS := $(call go-setting,GOFLAGS)

MODULES := . apis internal/owneddir agent/simulator hack/tools hack/release test/e2e
BIN := bin
export HOLLOWFLEET_BIN := $(CURDIR)/$(BIN)

# The simulator reports the version of Kubernetes that its go.mod links.
KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2; exit }' agent/simulator/go.mod)
KUBERNETES_MINOR := $(word 2,$(subst ., ,$(KUBERNETES_VERSION)))
KUBERNETES_MAJOR := $(patsubst v%,%,$(word 1,$(subst ., ,$(KUBERNETES_VERSION))))
VERSION_PACKAGE := k8s.io/component-base/version
export SIMULATOR_LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=$(KUBERNETES_VERSION) \
	-X $(VERSION_PACKAGE).gitMajor=$(KUBERNETES_MAJOR) -X $(VERSION_PACKAGE).gitMinor=$(KUBERNETES_MINOR)
# The other minors that hollow-node can be built for, and those for which it is: MINORS="1.36". One that was built stays up to date.
OTHER_MINORS := $(patsubst agent/simulator/minors/v%.mod,%,$(wildcard agent/simulator/minors/v*.mod))
MINORS ?= $(filter $(OTHER_MINORS),$(patsubst $(BIN)/v%/hollow-node,%,$(wildcard $(BIN)/v1.*/hollow-node)))
ifneq ($(filter-out $(OTHER_MINORS),$(MINORS)),)
$(error MINORS: no other Kubernetes minor $(filter-out $(OTHER_MINORS),$(MINORS)): hollow-node is always built for 1.$(KUBERNETES_MINOR), and can be for $(OTHER_MINORS))
endif
SIMULATOR_NOTE := Kubernetes itself is compiled here: about 10 minutes on 2 cores with an empty cache, seconds from then on

# hub and agent carry the commit they were built from, where git can tell it. A source archive, a repository
# without a commit, or one that git refuses to read builds just as well.
BUILDVCS = $(if $(shell git rev-parse --verify --quiet HEAD 2>/dev/null),auto,false)

# Tools are kept by the Go version and the go.mod that built them: after a change of either they are built again.
TOOLS_KEY := $(shell { go env GOVERSION; cat hack/tools/go.mod; } 2>/dev/null | sha256sum | cut -c1-12)
TOOLS := $(BIN)/tools/$(TOOLS_KEY)
CONTROLLER_GEN := $(TOOLS)/controller-gen
CRD_REF_DOCS := $(TOOLS)/crd-ref-docs
GOLANGCI_LINT := $(TOOLS)/golangci-lint
GOVULNCHECK := $(TOOLS)/govulncheck
# Says every few seconds how far a command is, so that nobody has to guess whether a cold build hangs.
PROGRESS := $(CURDIR)/hack/progress.sh

# Open Cluster Management's own programs and webhook configurations, for make test-ocm only.
OCM_VERSION := v1.2.1
OCM := $(BIN)/ocm/$(OCM_VERSION)

# cluster-autoscaler itself, for make test-autoscaler only: from a clone of its repository in AUTOSCALER_SOURCE, else from
# the network.
AUTOSCALER_VERSION := cluster-autoscaler-1.36.1
AUTOSCALER_SOURCE ?=
CLUSTER_AUTOSCALER := $(BIN)/autoscaler/$(AUTOSCALER_VERSION)/cluster-autoscaler

# cert-manager itself, for make e2e only, and only if CERT_MANAGER_SOURCE says where its repository is: a clone, or a URL.
CERT_MANAGER_VERSION := v1.20.3
CERT_MANAGER_SOURCE ?=
CERT_MANAGER := $(BIN)/cert-manager/$(CERT_MANAGER_VERSION)

# Prometheus and promtool, for make test-prometheus only, of the version whose packages test the charts.
PROMETHEUS_VERSION := $(shell awk '$$1 == "github.com/prometheus/prometheus" { print $$2; exit }' hack/release/go.mod)
PROMETHEUS := $(BIN)/prometheus/$(PROMETHEUS_VERSION)

# kwok's controller, for make build-kwok. Together with kubemark, it is what make bench-scale compares with: built with PEERS=1, or given
# by KWOK= and KUBEMARK=.
KWOK_VERSION := v0.8.0
PEERS ?=
ifneq ($(filter-out 0,$(PEERS)),)
KWOK ?= $(BIN)/peers/kwok-$(KWOK_VERSION)
KUBEMARK ?= $(BIN)/peers/kubemark-$(KUBERNETES_VERSION)
endif

comma := ,
# go-build NAME,PACKAGES builds programs of the root module into bin, all with one call of go.
# Without grpcnotrace, gRPC's debug pages keep the linker from leaving out what nothing calls: 20 MB of the agent.
go-build = @"$(PROGRESS)" '$(1)' 5 go build -v -buildvcs=$(BUILDVCS) -tags grpcnotrace -ldflags '-s -w' -o $(BIN)/ $(2)

# The tag of the images, and the commit that they tell; a source archive has neither.
VERSION ?= $(shell hack/version.sh)
REVISION = $(shell git rev-parse --verify --quiet HEAD 2>/dev/null)
COMMIT_TIME = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)

# Named one by one: a pattern that matches nothing would be no error.
HUB_PACKAGES := ./hub/cmd/hub ./hub/cmd/kubectl-hollow
AGENT_PACKAGES := ./agent/cmd/agent
DEMO_PACKAGE := ./test/demo
SIMULATOR_PACKAGES := ./cmd/simcluster ./cmd/hollow-node

# What may be set on the command line.
KEEP ?=
HOSTED ?=
CLUSTERS ?= 3
MACHINES ?= 20
NODES ?= 20
ROWS ?=
MODES ?=
SCALE_TO ?= 200
PODS ?= 100
KWOK_MACHINES ?= 1000
OUTPUT ?= text
SURGE ?= 10%
FOR ?= 2m
SEED ?= 0
ISOLATION ?= process
FAULTS ?=
TIMES ?= 10
WHOLE ?=
FUZZTIME ?= 1m
KIND ?= kind
ONLY ?=
FROM ?= HEAD~1
SNAPSHOT ?=
PARTS ?= plugin images charts
ARCHES ?= amd64 arm64
PLATFORMS ?= darwin_amd64 darwin_arm64 linux_amd64 linux_arm64 windows_amd64 windows_arm64
RELEASE_URL ?=
RELEASE_DIR ?= $(CURDIR)/$(BIN)/release/$(VERSION)
export TESTFLAGS ?=

##@ Use it

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nSettings: MINORS="1.36" (build*, images, demo), KEEP=1 (demo, e2e, fidelity), VERBOSE=1 (demo), KIND_NODE_IMAGE= (e2e, fidelity), CERT_MANAGER_SOURCE= HOSTED= (e2e), CLUSTERS=3 MACHINES=20 SURGE=10%% (bench), NODES=20 ROWS= MODES= SCALE_TO=200 PODS=100 KWOK_MACHINES=1000 OUTPUT=json PEERS=1 (bench-scale), FOR=2m (chaos), SEED=0 (chaos, faults, repeat), TIMES=10 WHOLE=1 SUITES= (repeat), FUZZTIME=1m (fuzz), VERSION= (images, charts, release), SNAPSHOT=1 PARTS="plugin charts" ARCHES="amd64 arm64" PLATFORMS= RELEASE_DIR= RELEASE_URL= (release), KIND=kind ONLY= (images-load), ONLY= (fidelity), FROM=HEAD~1 (test-upgrade), TESTFLAGS= for go test (test*).\n'

.PHONY: demo
demo: build ## Build everything, start a fleet on this machine, show five promises. KEEP=1 leaves it running, VERBOSE=1 shows each check.
	@$(BIN)/demo $(if $(filter-out 0,$(KEEP)),--keep) $(if $(filter-out 0,$(VERBOSE)),--verbose)

.PHONY: demo-down
demo-down: ## End a fleet that "make demo KEEP=1" left running, and remove its files.
	$(call go-build,demo,$(DEMO_PACKAGE) ./hub/cmd/kubectl-hollow)
	@$(BIN)/demo down

.PHONY: bench
bench: build ## Measure a fleet: CLUSTERS clusters with MACHINES machines each, rolled with a surge of SURGE; and a plan for 500 clusters.
	@go run ./test/bench --clusters=$(CLUSTERS) --machines=$(MACHINES) --surge=$(SURGE)
	@go test -count=1 -vet=off -run '^$$' -bench 500Clusters ./hub/internal/fleet

.PHONY: bench-load
bench-load: build ## Measure a load test and what it costs: 10 clusters with 20 machines and 100 pods each, and one cluster whose machine keeps up.
	@go run ./test/bench load --profile=Realistic --clusters=10 --machines=20 --pods=100 --portion=4 --every=10s
	@go run ./test/bench load --profile=Realistic --clusters=1 --machines=5 --pods=200 --qps=2

.PHONY: bench-scale
bench-scale: build $(filter $(BIN)/peers/%,$(KWOK) $(KUBEMARK)) ## Measure control planes, nodes, whole fleets of CLUSTERS × NODES and load tests in each way to run them, in one table. ROWS= and MODES= choose, PEERS=1 adds kwok and kubemark.
	@go run ./test/bench scale --clusters=$(CLUSTERS) --machines=$(NODES) --rows=$(ROWS) --modes=$(MODES) --scale-to=$(SCALE_TO) --pods=$(PODS) --kwok-machines=$(KWOK_MACHINES) \
		--kwok='$(KWOK)' --kubemark='$(KUBEMARK)' --rest=2m --timeout=3h -o $(OUTPUT)

.PHONY: chaos
chaos: build ## Break a fleet at random and check that nothing is lost. FOR=10m sets how long, SEED=7 repeats a run, ISOLATION=shared shares processes, FAULTS="kill the hub,stop the hub" names the faults.
	@go test -count=1 -vet=off -v -timeout 0 ./test/integration/chaos -args -chaos.for=$(FOR) -chaos.seed=$(SEED) -chaos.isolation=$(ISOLATION) -chaos.faults='$(FAULTS)' -ginkgo.timeout=0 -ginkgo.v

.PHONY: faults
faults: build ## Break a fleet in every way, in the middle of everything: 35 to 50 minutes. SEED=7 draws other pairs, ISOLATION=shared lets control planes and hollow nodes share processes.
	@go test -count=1 -vet=off -v -timeout 0 ./test/integration/faults -args -faults.whole -faults.seed=$(SEED) -faults.isolation=$(ISOLATION) -ginkgo.timeout=0 -ginkgo.v

.PHONY: repeat
repeat: build ## Run the suites that break fleets TIMES times in a row, each time with another seed. WHOLE=1 with all faults, SUITES="chaos restored" some of them.
	@hack/repeat.sh $(TIMES) $(SEED) $(if $(filter-out 0,$(WHOLE)),whole)

##@ Build it

.PHONY: build
build: ## Build bin/hub, bin/kubectl-hollow with its completion, bin/agent, bin/simcluster, bin/hollow-node and bin/demo.
	$(call go-build,hub$(comma) agent and demo,$(HUB_PACKAGES) $(AGENT_PACKAGES) $(DEMO_PACKAGE))
	@install -m 755 hack/kubectl_complete-hollow.sh $(BIN)/kubectl_complete-hollow
	@$(MAKE) build-simulator

.PHONY: build-hub
build-hub: ## Build bin/hub and bin/kubectl-hollow alone.
	$(call go-build,hub,$(HUB_PACKAGES))
	@install -m 755 hack/kubectl_complete-hollow.sh $(BIN)/kubectl_complete-hollow

.PHONY: build-agent
build-agent: ## Build bin/agent alone.
	$(call go-build,agent,$(AGENT_PACKAGES))

# The simulator's version is that of Kubernetes, so no commit is put into it: it need not be linked again after each.
.PHONY: build-simulator
build-simulator: ## Build bin/simcluster and bin/hollow-node, which compiles Kubernetes. MINORS="1.36" adds bin/v1.36/hollow-node with that kubelet.
	@cd agent/simulator && NOTE='$(SIMULATOR_NOTE)' "$(PROGRESS)" simulator 10 \
		go build -v -buildvcs=false -ldflags '$(SIMULATOR_LDFLAGS)' -o "$(CURDIR)/$(BIN)/" $(SIMULATOR_PACKAGES)
	@for minor in $(MINORS); do hack/minor.sh build "$$minor" $(BIN); done

.PHONY: build-kwok
build-kwok: $(BIN)/peers/kwok-$(KWOK_VERSION) ## Build bin/kwok, kwok's own controller, for Machines of provider kwok.
	@install -m 755 $< $(BIN)/kwok

.PHONY: images
images: build ## Write an image and an SBOM of hub, dashboard, agent, hollow-node and simcluster to bin/images, and the charts for them to bin/charts. No container engine is needed.
	@cd hack/release && go run ./images build --bin "$(CURDIR)/$(BIN)" --out "$(CURDIR)/$(BIN)/images" \
		--version '$(VERSION)' --revision '$(REVISION)' --created $(COMMIT_TIME)
	@cd hack/release && go run ./charts --from "$(CURDIR)/charts" --out "$(CURDIR)/$(BIN)/charts" --version '$(VERSION)'

.PHONY: images-load
images-load: ## Load what "make images" has written into the kind cluster KIND=kind. ONLY=hub,agent loads some of them.
	@cd hack/release && go run ./images load --kind '$(KIND)' --from "$(CURDIR)/$(BIN)/images" --only '$(ONLY)'

.PHONY: charts
charts: ## Package the charts of hub, agent and simulated cluster into bin/charts, for the images of the same version.
	@cd hack/release && go run ./charts --from "$(CURDIR)/charts" --out "$(CURDIR)/$(BIN)/charts" --version '$(VERSION)'

# The same flags as everywhere, so that it shares the build cache with make build. What that has not compiled yet takes ten minutes for an
# architecture of the images, and two for a platform of the plugin. It is run without go, which would not hand a signal on.
.PHONY: release
release: ## Write to bin/release/VERSION what a user of tag VERSION=v0.1.0 gets: plugin archives, krew manifest, images, charts, SBOMs, provenance, checksums. SNAPSHOT=1 takes any tree, PARTS="plugin charts" some of it, RELEASE_DIR= another directory.
	@mkdir -p $(TOOLS)
	@cd hack/release && go build -buildvcs=false -o "$(CURDIR)/$(TOOLS)/" ./release
	@exec $(TOOLS)/release --root "$(CURDIR)" --version '$(VERSION)' --out '$(RELEASE_DIR)' $(if $(filter-out 0,$(SNAPSHOT)),--snapshot) \
		--parts '$(PARTS)' --arches '$(ARCHES)' --platforms '$(PLATFORMS)' --download '$(RELEASE_URL)'

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Write the deep-copy functions and the decoders of the API types.
	@hack/undecodable.sh
	@cd apis && "$(CURDIR)/$(CONTROLLER_GEN)" object paths=./...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Write the CRDs, schemas and RBAC roles in config/ and docs/api.md from the types and markers in the code.
	@hack/manifests.sh $(CONTROLLER_GEN) $(CRD_REF_DOCS)

.PHONY: format
format: $(GOLANGCI_LINT) ## Format the Go code of every module, imports included.
	@for module in $(MODULES); do (cd $$module && "$(CURDIR)/$(GOLANGCI_LINT)" fmt ./...); done

.PHONY: clean
clean: ## Remove all that make built. Go's own caches stay.
	rm -rf $(BIN)

##@ Check it

.PHONY: test
test: build ## Run every test but the long ones: units and controllers, then integration. What a change needs.
	@hack/test.sh short unit integration

.PHONY: test-long
test-long: build ## Run every test, the long ones too, and fuzz each decoder for FUZZTIME=1m: about two hours.
	@hack/test.sh unit integration
	@hack/fuzz.sh $(FUZZTIME) $(MODULES)

.PHONY: test-unit
test-unit: build ## Run the tests of every module but the integration tests. Controllers get a real API server.
	@hack/test.sh unit

.PHONY: test-integration
test-integration: build ## Run the real hub and agents against several real control planes, the long tests too.
	@hack/test.sh integration

.PHONY: fuzz
fuzz: build ## Fuzz each decoder and parser for FUZZTIME=1m.
	@hack/fuzz.sh $(FUZZTIME) $(MODULES)

.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in what is built. It needs the network, for the Go vulnerability database.
	@failed=0; for module in $(MODULES); do echo "== $$module"; (cd $$module && "$(CURDIR)/$(GOVULNCHECK)" ./...) || failed=1; done; exit $$failed

.PHONY: test-ocm
test-ocm: build $(OCM)/placement ## Run the hub beside Open Cluster Management's own registration, webhooks and placement, which are built for it.
	@HOLLOWFLEET_OCM=$(CURDIR)/$(OCM) go test -count=1 -vet=off -timeout 30m -v ./test/integration/ocm

.PHONY: test-upgrade
test-upgrade: build ## Let the programs take over a local fleet with simulated clusters of the commit FROM=HEAD~1, whose programs are built for it.
	@source=$$(mktemp -d); trap 'git worktree remove --force "$$source"' EXIT; \
	git worktree add --quiet --detach "$$source" '$(FROM)'; $(MAKE) -C "$$source" build; \
	HOLLOWFLEET_EARLIER_BIN="$$source/bin" go test -count=1 -vet=off -timeout 40m -v ./test/integration/hosted -args \
		-ginkgo.focus='of an earlier commit'

.PHONY: test-minors
test-minors: MINORS := $(or $(MINORS),$(lastword $(sort $(OTHER_MINORS))))
test-minors: build-simulator ## Let the hollow-node of the newest other Kubernetes minor, or of MINORS="1.36", join a control plane of the built-in one.
	@for minor in $(MINORS); do hack/minor.sh test "$$minor" $(BIN); done

.PHONY: test-browser
test-browser: build ## Look at the dashboard's pages in Chromium, and check them with axe-core. Root gets Chromium by apt-get where it is missing.
	@hack/browser.sh
	@HOLLOWFLEET_BROWSER_REQUIRED=1 go test -count=1 -vet=off -ldflags '-s -w' -v -run 'Accessible|ABrowser|FirstPaint' ./hub/cli/dashboard ./hub/cli

.PHONY: test-autoscaler
test-autoscaler: build $(CLUSTER_AUTOSCALER) ## Let an unmodified cluster-autoscaler, which is built for it, scale a real fleet.
	@HOLLOWFLEET_CLUSTER_AUTOSCALER=$(CURDIR)/$(CLUSTER_AUTOSCALER) go test -count=1 -vet=off -timeout 30m -v ./test/integration/autoscaler \
		-args -ginkgo.focus='cluster-autoscaler itself'

.PHONY: test-prometheus
test-prometheus: build $(PROMETHEUS)/prometheus ## Let a real Prometheus, which is built for it, look at a fleet that fails on purpose: each alert fires and clears, each panel shows something. About 12 minutes.
	@HOLLOWFLEET_PROMETHEUS=$(CURDIR)/$(PROMETHEUS) go test -count=1 -vet=off -timeout 40m -v ./test/integration/prometheus

.PHONY: e2e
e2e: ## Run Hollowfleet on three real kind clusters, as docs/install.md says. It needs Docker; KIND_NODE_IMAGE= names another node, CERT_MANAGER_SOURCE= adds cert-manager, HOSTED=10 only measures so many simulated clusters as pods. KEEP=1 leaves them.
	@KEEP='$(KEEP)' HOSTED='$(HOSTED)' CERT_MANAGER='$(CERT_MANAGER)' CERT_MANAGER_SOURCE='$(CERT_MANAGER_SOURCE)' test/e2e/run.sh

.PHONY: fidelity
fidelity: ## Run one script of node and pod events on a kind node and on a hollow node, and print what differs: docs/fidelity.md. It needs Docker; KIND_NODE_IMAGE= names another node, ONLY=life,probes runs some steps, KEEP=1 leaves the kind cluster.
	@KEEP='$(KEEP)' ONLY='$(ONLY)' test/fidelity/run.sh

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint over every module.
	@hack/lint.sh $(GOLANGCI_LINT) $(MODULES)

.PHONY: verify
verify: $(CONTROLLER_GEN) $(CRD_REF_DOCS) $(GOLANGCI_LINT) ## Check generated files, formatting, go.mod files, vet, import walls and lint.
	@hack/verify.sh $(GOLANGCI_LINT) $(MODULES)

##@ Tools

.PHONY: tools
tools: $(CONTROLLER_GEN) $(CRD_REF_DOCS) $(GOLANGCI_LINT) ## Build the pinned tools into bin/tools.

$(BIN)/peers/kwok-$(KWOK_VERSION):
	@echo "building kwok $(KWOK_VERSION): a few minutes with an empty cache"
	@mkdir -p $@.d
	@cd / && GOBIN="$(CURDIR)/$@.d" go install sigs.k8s.io/kwok/cmd/kwok@$(KWOK_VERSION)
	@mv $@.d/kwok $@ && rmdir $@.d

# Kubernetes' own kubemark, of the version and with the flags of the simulator, so that hardly anything is compiled for it.
$(BIN)/peers/kubemark-$(KUBERNETES_VERSION):
	@echo "building kubemark $(KUBERNETES_VERSION): a minute after make build"
	@mkdir -p $(@D)
	@cp agent/simulator/go.mod $@.mod && cp agent/simulator/go.sum $@.sum
	@cd agent/simulator && go build -modfile="$(CURDIR)/$@.mod" -mod=mod -buildvcs=false -ldflags '$(SIMULATOR_LDFLAGS)' -o "$(CURDIR)/$@" k8s.io/kubernetes/cmd/kubemark

$(OCM)/placement: hack/ocm.sh
	@echo "building OCM's programs $(OCM_VERSION): a few minutes with an empty cache"
	@hack/ocm.sh $(OCM_VERSION) $(@D)

# Without the discovery of cloud providers, whose libraries would be most of what is compiled.
$(PROMETHEUS)/prometheus:
	@echo "building prometheus and promtool $(PROMETHEUS_VERSION): a few minutes with an empty cache"
	@mkdir -p $(@D)
	@cp hack/release/go.mod $(@D)/go.mod && cp hack/release/go.sum $(@D)/go.sum
	@cd hack/release && go build -modfile="$(CURDIR)/$(@D)/go.mod" -mod=mod -buildvcs=false -tags remove_all_sd -ldflags '-s -w' -o "$(CURDIR)/$(@D)/" \
		github.com/prometheus/prometheus/cmd/promtool github.com/prometheus/prometheus/cmd/prometheus

$(CLUSTER_AUTOSCALER): hack/cluster-autoscaler.sh
	@echo "building $(AUTOSCALER_VERSION): a few minutes with an empty cache"
	@hack/cluster-autoscaler.sh $(AUTOSCALER_VERSION) $@ $(AUTOSCALER_SOURCE)

$(CONTROLLER_GEN): PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
$(CRD_REF_DOCS): PACKAGE := github.com/elastic/crd-ref-docs
$(GOVULNCHECK): PACKAGE := golang.org/x/vuln/cmd/govulncheck
$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(CONTROLLER_GEN) $(CRD_REF_DOCS) $(GOLANGCI_LINT) $(GOVULNCHECK):
	@mkdir -p $(BIN)/tools
	@find $(BIN)/tools -mindepth 1 -maxdepth 1 -type d ! -name $(TOOLS_KEY) -exec rm -rf {} +
	@cd hack/tools && "$(PROGRESS)" $(@F) 5 go build -v -buildvcs=false -o "$(CURDIR)/$@" $(PACKAGE)
