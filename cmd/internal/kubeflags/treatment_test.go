package kubeflags

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientfeatures "k8s.io/client-go/features"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/groups"
)

// TestEveryGateIsTreated turns each gate that can be turned, alone: what is refused is refused with the
// reason, what has no effect is told, and what is honoured is neither.
func TestEveryGateIsTreated(t *testing.T) {
	seen, tied := 0, 0 // tied: others need the gate, or it needs others
	for name, spec := range parse(t).gates.GetAll() {
		if spec.LockToDefault || name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		seen++
		word := map[bool]string{true: "=false", false: "=true"}[spec.Default]
		f := parse(t, "--feature-gates="+string(name)+word)
		if err := f.registry.Set(); err != nil {
			if !strings.Contains(err.Error(), "depends on features that are disabled") {
				t.Fatalf("%s: %v", name, err)
			}
			tied++
			continue
		}
		g := treatment(string(name))
		err := f.refusedGates()
		if (err != nil) != (g.Treatment == Refused) || err != nil && !strings.Contains(err.Error(), g.Reason) {
			t.Errorf("%s is %s: got %v", name, g.Treatment, err)
		}
		want := []string{"--feature-gates=" + string(name) + ": " + g.Reason}
		if got := f.idleGates(); g.Treatment == Idle && !slices.Equal(got, want) || g.Treatment != Idle && len(got) > 0 {
			t.Errorf("%s is %s: got %q", name, g.Treatment, got)
		}
	}
	if seen < 100 || tied > 25 {
		t.Errorf("gates: want at least 100 that can be turned, and at most 25 not alone, got %d and %d", seen, tied)
	}
}

// TestGatesAreKnown holds the treatments to gates that there are, in order, once, and to the document.
func TestGatesAreKnown(t *testing.T) {
	known := parse(t).gates.GetAll()
	var names, want []string
	for _, g := range Gates() {
		names = append(names, g.Name)
		ok := false
		for name, spec := range known {
			if string(name) == g.Name {
				ok = true
				stage := strings.ToLower(string(spec.PreRelease))
				if stage == "" {
					stage = "ga"
				}
				state := map[bool]string{true: "on", false: "off"}[spec.Default]
				treated := g.Treatment.String()
				if spec.LockToDefault {
					treated = "locked"
				}
				want = append(want, g.Name+" | "+stage+", "+state+" | "+treated+" | "+g.Reason)
			}
		}
		if !ok {
			t.Errorf("%s: kube-scheduler has no such gate", g.Name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("gates: want them in order, each once: %q", names)
	}
	text, err := os.ReadFile("../../../docs/feature-gates.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(string(text), -1) {
		got = append(got, strings.Join(row[1:], " | "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/feature-gates.md: want these rows\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	_, rest, _ := strings.Cut(string(text), "## All others")
	var listed []string
	for _, m := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(rest, -1) {
		listed = append(listed, m[1])
	}
	if want := others(); !slices.Equal(listed, want) {
		t.Errorf("docs/feature-gates.md: want these others\n%s\ngot\n%s", strings.Join(want, ", "), strings.Join(listed, ", "))
	}
}

// TestClientGoAsksTheGates: its gates are ours once they are applied, and those that we do not have stay.
func TestClientGoAsksTheGates(t *testing.T) {
	before := clientfeatures.FeatureGates()
	t.Cleanup(func() { clientfeatures.ReplaceFeatureGates(before) })
	f := parse(t, "--feature-gates=WatchListClient=false,ClientsAllowCBOR=true")
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if err := f.applyGates(); err != nil {
		t.Fatal(err)
	}
	now := clientfeatures.FeatureGates()
	if now.Enabled(clientfeatures.WatchListClient) || !now.Enabled(clientfeatures.ClientsAllowCBOR) || !now.Enabled(clientfeatures.ClientsAllowTLSCacheGC) {
		t.Error("client-go: want WatchListClient off, ClientsAllowCBOR and ClientsAllowTLSCacheGC on")
	}
}

// TestNodeDeclaredFeaturesOff takes the plugin out of the defaults, and out of what a file says.
func TestNodeDeclaredFeaturesOff(t *testing.T) {
	const file = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {filter: {enabled: [{name: NodeDeclaredFeatures}]}}}]\n"
	for _, gate := range []string{"true", "false"} {
		line := "--feature-gates=NodeDeclaredFeatures=" + gate
		if gate == "false" {
			line += ",ExtendWebSocketsToKubelet=false,InPlacePodLevelResourcesVerticalScaling=false,InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false"
		}
		f := parse(t, line)
		if err := f.registry.Set(); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", file} {
			c, err := config.FromDefault(f.Changes(false)...)
			if text != "" {
				c, err = config.Parse("f", []byte(text), f.Changes(true)...)
			}
			if err != nil {
				t.Fatal(err)
			}
			runs := slices.ContainsFunc(c.Expanded()[0].Plugins.Filter.Enabled, func(p configv1.Plugin) bool { return p.Name == "NodeDeclaredFeatures" })
			if runs != (gate == "true") {
				t.Errorf("the gate %s: got the plugin %v", gate, runs)
			}
		}
	}
}

// Gates of pod groups are off on Kubernetes until they are turned on, and on without it until they are turned off, with what needs them.
func TestGatesOfPodGroups(t *testing.T) {
	for _, x := range []struct {
		line       string
		standalone bool
		want       groups.Gates
	}{
		{"", false, groups.Gates{}},
		{"", true, groups.All()},
		{"GenericWorkload=true,GangScheduling=true", false, groups.Gates{Workload: true, Gang: true}},
		{"GenericWorkload=true,TopologyAwareWorkloadScheduling=true", false, groups.Gates{Workload: true, Topology: true}},
		{"GenericWorkload=false", true, groups.Gates{}},
		{"GangScheduling=false", true, groups.Gates{Workload: true, Topology: true, Claims: true}},
	} {
		var args []string
		if x.line != "" {
			args = append(args, "--feature-gates="+x.line)
		}
		f := parse(t, args...)
		if err := f.registry.Set(); err != nil {
			t.Fatal(err)
		}
		if got := f.PodGroups(x.standalone); got != x.want {
			t.Errorf("%q, standalone %v: got %+v, want %+v", x.line, x.standalone, got, x.want)
		}
	}
}
