package kubeflags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// Treatment is what comes of a feature gate that is not at its default.
type Treatment int

const (
	// Honoured gates do here what they do in kube-scheduler.
	Honoured Treatment = iota
	// Idle gates are accepted and change nothing.
	Idle
	// Refused gates would change decisions, and can't be honoured.
	Refused
)

func (t Treatment) String() string { return [...]string{"honoured", "no effect", "refused"}[t] }

// Gate is a feature gate that kube-scheduler looks at, and its treatment.
type Gate struct {
	Name      string
	Treatment Treatment
	Reason    string
}

const (
	alwaysOn   = "dynamic resources are evaluated with it: what is allocated without it would be another decision"
	ofClientGo = "client-go's own"
	ofLogs     = "of logs"
)

// Gates are those that kube-scheduler looks at. All others are other components': no effect.
func Gates() []Gate {
	return []Gate{
		{"AtomicFIFO", Honoured, ofClientGo},
		{"ClientsAllowCARotation", Honoured, ofClientGo},
		{"ClientsAllowCBOR", Honoured, ofClientGo},
		{"ClientsAllowTLSCacheGC", Honoured, ofClientGo},
		{"ClientsPreferCBOR", Honoured, ofClientGo},
		{"ComponentFlagz", Honoured, "serves /flagz"},
		{"ComponentStatusz", Honoured, "serves /statusz"},
		{"ContextualLogging", Honoured, ofLogs},
		{"CoordinatedLeaderElection", Idle, "the leader is elected in etcd, and holds kube-scheduler's Lease as one that was not told to " +
			"wait for a coordinator"},
		{"DRAAdminAccess", Idle, "always on"},
		{"DRAConsumableCapacity", Refused, alwaysOn},
		{"DRADeviceBindingConditions", Refused, alwaysOn},
		{"DRADeviceTaintRules", Refused, "not implemented: devices have the taints that their slices give them"},
		{"DRADeviceTaints", Refused, alwaysOn},
		{"DRAExtendedResource", Refused, alwaysOn},
		{"DRAListTypeAttributes", Refused, "not implemented: an attribute has one value"},
		{"DRANodeAllocatableResources", Refused, "not implemented: what devices take of a node's own resources does not count"},
		{"DRAPartitionableDevices", Refused, alwaysOn},
		{"DRAPrioritizedList", Refused, alwaysOn},
		{"DRAResourceClaimDeviceStatus", Refused, alwaysOn},
		{"DRAResourceClaimGranularStatusAuthorization", Idle, "of the API server: the role system:kube-scheduler has what it asks for"},
		{"DRAResourcePoolStatus", Idle, "of kube-controller-manager"},
		{"DRASchedulerFilterTimeout", Idle, "a search for devices is bounded by its steps"},
		{"DRAWorkloadResourceClaims", Honoured, "claims are reserved for PodGroups"},
		{"DynamicResourceAllocation", Idle, "always on"},
		{"GangScheduling", Honoured, "as many pods of a PodGroup start as it needs, or none"},
		{"GenericWorkload", Honoured, "pods of a PodGroup are decided together"},
		{"InOrderInformers", Honoured, ofClientGo},
		{"InOrderInformersBatchProcess", Honoured, ofClientGo},
		{"InPlacePodLevelResourcesVerticalScaling", Idle, "what the status says that a pod was given as a whole counts, and it says so " +
			"where API server and kubelets have the gate on"},
		{"InPlacePodVerticalScaling", Idle, "always on"},
		{"InformerResourceVersion", Honoured, ofClientGo},
		{"LoggingAlphaOptions", Honoured, ofLogs},
		{"LoggingBetaOptions", Honoured, ofLogs},
		{"MatchLabelKeysInPodTopologySpread", Refused, "PodTopologySpread heeds matchLabelKeys"},
		{"MatchLabelKeysInPodTopologySpreadSelectorMerge", Idle, "the API server merges them; without Kubernetes the store does"},
		{"NativeHistograms", Honoured, "of metrics"},
		{"NodeDeclaredFeatures", Honoured, "off: the plugin NodeDeclaredFeatures is in no profile"},
		{"NodeInclusionPolicyInPodTopologySpread", Idle, "always on"},
		{"NominatedNodeNameForExpectation", Idle, "a pod is told its node by its binding alone"},
		{"OpportunisticBatching", Idle, "pods of a class share what is known of it in any case, and decisions are those without it"},
		{"PodLevelResources", Refused, "spec.resources of a pod counts"},
		{"RemoteRequestHeaderUID", Honoured, "of the HTTPS port's authentication"},
		{"SchedulerAsyncAPICalls", Idle, "statuses are written behind the loop in any case"},
		{"SchedulerAsyncPreemption", Honoured, "off: preemptors are not held back while their victims are told to leave"},
		{"SchedulerPopFromBackoffQ", Honoured, "off: a pod waits its backoff out, though nothing else is to be done"},
		{"SchedulerQueueingHints", Idle, "always on"},
		{"SidecarContainers", Idle, "always on"},
		{"StorageCapacityScoring", Refused, "VolumeBinding scores nothing"},
		{"TaintTolerationComparisonOperators", Refused, "tolerations are compared with Equal and Exists alone"},
		{"TopologyAwareWorkloadScheduling", Honoured, "pods of a PodGroup are placed near each other"},
		{"UnlockWhileProcessingFIFO", Honoured, ofClientGo},
		{"VolumeAttributesClass", Idle, "always on"},
		{"VolumeLimitScaling", Refused, "NodeVolumeLimits lets pods of CSI drivers onto nodes that have none of them"},
		{"WatchListClient", Honoured, ofClientGo},
		{"WorkloadAwarePreemption", Honoured, "a PodGroup preempts as a whole, and may be preempted as one"},
	}
}

// treatment is a gate's; those that kube-scheduler does not look at have no effect.
func treatment(name string) Gate {
	all := Gates()
	if i := slices.IndexFunc(all, func(g Gate) bool { return g.Name == name }); i >= 0 {
		return all[i]
	}
	return Gate{name, Idle, "another component's"}
}

// changed are the gates that are not at their default, sorted.
func (f *Flags) changed() []string {
	var names []string
	for name, spec := range f.gates.GetAll() {
		if name != "AllAlpha" && name != "AllBeta" && f.gates.Enabled(name) != spec.Default {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

// refusedGates are the gates that are not at their default and would have to be.
func (f *Flags) refusedGates() error {
	var errs []error
	for _, name := range f.changed() {
		if g := treatment(name); g.Treatment == Refused {
			errs = append(errs, fmt.Errorf("--feature-gates=%s=%t: it would change decisions, and can't be honoured: %s", name,
				f.Enabled(name), g.Reason))
		}
	}
	return errors.Join(errs...)
}

// idleGates are the gates that are not at their default and change nothing, each with the reason.
func (f *Flags) idleGates() []string {
	var list []string
	for _, name := range f.changed() {
		if g := treatment(name); g.Treatment == Idle {
			list = append(list, "--feature-gates="+name+": "+g.Reason)
		}
	}
	return list
}

// clientGates answers client-go.
type clientGates struct {
	gates featuregate.FeatureGate
	known map[featuregate.Feature]bool
	other clientfeatures.Gates
}

func (c clientGates) Enabled(f clientfeatures.Feature) bool {
	if name := featuregate.Feature(f); c.known[name] {
		return c.gates.Enabled(name)
	}
	return c.other.Enabled(f)
}

// applyGates hands gates that differ from their default to the libraries which look at them, for the process
// as a whole.
func (f *Flags) applyGates() error {
	changed := f.changed()
	if slices.ContainsFunc(changed, func(name string) bool { return treatment(name).Reason == ofClientGo }) {
		known := map[featuregate.Feature]bool{}
		for name := range f.gates.GetAll() {
			known[name] = true
		}
		clientfeatures.ReplaceFeatureGates(clientGates{f.gates, known, clientfeatures.FeatureGates()})
	}
	const header = "RemoteRequestHeaderUID"
	if slices.Contains(changed, header) {
		return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{header: f.Enabled(header)})
	}
	return nil
}

// PodGroups are the feature gates of pod groups. Without Kubernetes those are on that are not turned off, with what needs them.
func (f *Flags) PodGroups(standalone bool) groups.Gates {
	on := func(gate featuregate.Feature) bool {
		return f.gates.Enabled(gate) || standalone && !f.gates.ExplicitlySet(gate)
	}
	g := groups.Gates{Workload: on("GenericWorkload")}
	g.Gang = g.Workload && on("GangScheduling")
	g.Topology = g.Workload && on("TopologyAwareWorkloadScheduling")
	g.Preemption = g.Gang && on("WorkloadAwarePreemption")
	g.Claims = g.Workload && on("DRAWorkloadResourceClaims")
	return g
}

// GatesChange is what the feature gates say of a configuration.
func (f *Flags) GatesChange(c *configv1.KubeSchedulerConfiguration) {
	for _, r := range rules.All() {
		if r.Gate != "" && !f.Enabled(r.Gate) {
			without(c, r)
		}
	}
}

// without takes a plugin out of all profiles.
func without(c *configv1.KubeSchedulerConfiguration, r *rules.Rule) {
	is := func(p configv1.Plugin) bool { return p.Name == r.Name }
	for i := range c.Profiles {
		p := c.Profiles[i].Plugins
		p.MultiPoint.Enabled = slices.DeleteFunc(slices.Clone(p.MultiPoint.Enabled), is)
		for _, at := range r.Points {
			at.Of(p).Enabled = slices.DeleteFunc(slices.Clone(at.Of(p).Enabled), is)
		}
	}
}

// others are the gates that kube-scheduler does not look at, sorted.
func others() []string {
	var names []string
	for line := range strings.Lines(gatesText) {
		if name, _, _ := strings.Cut(line, " "); treatment(name).Reason == "another component's" {
			names = append(names, name)
		}
	}
	return names
}
