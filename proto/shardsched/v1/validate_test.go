package shardschedv1

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestValidMessagesPass(t *testing.T) {
	for i, m := range validMessages() {
		if err := m.Validate(); err != nil {
			t.Errorf("message %d, %T: got %q, want no error", i, m, err)
		}
	}
}

func TestValidMessagesCostNoAllocation(t *testing.T) {
	for _, m := range validMessages() {
		if n := testing.AllocsPerRun(10, func() { _ = m.Validate() }); n != 0 {
			t.Errorf("%T: got %v allocations, want 0", m, n)
		}
	}
}

// TestAbsentMessagesDoNotPanic holds that a nil element, which Go can build and the wire
// can not carry, is an answer and not a crash.
func TestAbsentMessagesDoNotPanic(t *testing.T) {
	for _, m := range validMessages() {
		empty := m.ProtoReflect().Type().Zero().Interface().(message)
		_ = empty.Validate()
	}
	err := (&EvaluateRequest{Cluster: "c", Term: 1, Shards: []*ShardDeltas{{Generation: 1, Deltas: []*Delta{nil}}}}).Validate()
	if got, want := fmt.Sprint(err), "shards[0].deltas[0].change: expected one of set_node, remove_node, add_pod, remove_pod, change_pod, change_counters, set_counter, and set, remove and use of devices, got none"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// change makes a valid message and breaks it.
func change[M message](m M, f func(M)) message {
	f(m)
	return m
}

func evaluate(f func(*EvaluateRequest)) message { return change(validEvaluate(), f) }
func query(f func(*Query)) message              { return change(validQuery(), f) }
func node(f func(*Node)) message                { return change(validNode(), f) }
func result(f func(*ClassResult)) message {
	r := validResponse()
	f(r.Results[0])
	return r
}

func columns(f func(*GroupColumns)) message {
	r := validResponse()
	f(r.Groups)
	return r
}

func passes(f func(*PassColumns)) message {
	r := validResponse()
	f(r.Passes)
	return r
}

func pinnedTerms(n int) []*PinnedTerms {
	return slices.Repeat([]*PinnedTerms{{TopologyKey: "a", Counters: []*CounterTerm{{Counter: 1, Weight: 1}}}}, n)
}

func TestBrokenMessages(t *testing.T) {
	long := strings.Repeat("x", 10<<20)
	for _, c := range []struct {
		name string
		m    message
		want string
	}{
		{"deep inside a request the whole path is named",
			evaluate(func(x *EvaluateRequest) { x.Shards[0].Deltas[0].GetSetNode().Labels[2].Key = "" }),
			"shards[0].deltas[0].set_node.labels[2].key: expected a value, got none"},
		{"a label of 10 MB", node(func(x *Node) { x.Labels[0].Value = long }), "labels[0].value: expected at most 4096 bytes, got 10485760"},
		{"a label key twice", node(func(x *Node) { x.Labels[1].Key = "a" }), `labels[1].key: expected a key after "a", got "a"`},
		{"a name that is not UTF-8", node(func(x *Node) { x.Name = "\xff" }), "name: expected UTF-8"},
		{"a node without a name", node(func(x *Node) { x.Name = "" }), "name: expected a value, got none"},
		{"a taint without an effect", node(func(x *Node) { x.Taints[0].Effect = 0 }), "taints[0].effect: expected a specified value, got TAINT_EFFECT_UNSPECIFIED"},
		{"a taint with an unknown effect", node(func(x *Node) { x.Taints[0].Effect = 9 }), "taints[0].effect: expected a specified value, got 9"},
		{"negative memory", node(func(x *Node) { x.Allocatable.MemoryBytes = -1 }), "allocatable.memory_bytes: expected 0 or more, got -1"},
		{"negative cpu", node(func(x *Node) { x.Allocatable.MilliCpu = -1 }), "allocatable.milli_cpu: expected 0 or more, got -1"},
		{"negative storage", node(func(x *Node) { x.Allocatable.EphemeralStorageBytes = -1 }), "allocatable.ephemeral_storage_bytes: expected 0 or more, got -1"},
		{"a scalar twice", node(func(x *Node) { x.Allocatable.Scalars[1].Name = "hugepages-2Mi" }), `allocatable.scalars[1].name: expected a name after "hugepages-2Mi", got "hugepages-2Mi"`},
		{"a negative scalar", node(func(x *Node) { x.Allocatable.Scalars[1].Quantity = -8 }), "allocatable.scalars[1].quantity: expected 0 or more, got -8"},
		{"negative pods", node(func(x *Node) { x.AllowedPods = -1 }), "allowed_pods: expected 0 or more, got -1"},
		{"images out of order", node(func(x *Node) { x.Images[0] = "z" }), `images[1]: expected a name after "z", got "docker.io/b:latest"`},
		{"an empty image", node(func(x *Node) { x.Images[1] = "" }), "images[1]: expected a value, got none"},

		{"a delta without a change", &Delta{Row: 1}, "change: expected one of set_node, remove_node, add_pod, remove_pod, change_pod, change_counters, set_counter, and set, remove and use of devices, got none"},
		{"a delta far outside the table", &Delta{Row: MaxRow, Change: &Delta_RemoveNode{}}, "row: expected 0 to 4194303, got 4194304"},
		{"a decision before on a removal of a node", &Delta{Change: &Delta_RemoveNode{}, LastDecision: new(uint64)}, "last_decision: expected none without remove_pod, got 0"},
		{"a decision on a removal", &Delta{Change: &Delta_RemoveNode{}, Decision: 3}, "decision: expected 0 without add_pod, got 3"},
		{"a port without a protocol", change(addPod(), func(x *Delta) { x.GetAddPod().HostPorts[0].Protocol = 0 }), "add_pod.host_ports[0].protocol: expected a specified value, got PROTOCOL_UNSPECIFIED"},
		{"port 0", change(addPod(), func(x *Delta) { x.GetAddPod().HostPorts[0].Port = 0 }), "add_pod.host_ports[0].port: expected 1 to 65535, got 0"},
		{"port 65536", change(addPod(), func(x *Delta) { x.GetAddPod().HostPorts[0].Port = 65536 }), "add_pod.host_ports[0].port: expected 1 to 65535, got 65536"},
		{"a port without an address", change(addPod(), func(x *Delta) { x.GetAddPod().HostPorts[0].Ip = "" }), "add_pod.host_ports[0].ip: expected a value, got none"},
		{"a pod that gives back", &Delta{Change: &Delta_RemovePod{RemovePod: &PodUsage{NonZeroMilliCpu: -5}}}, "remove_pod.non_zero_milli_cpu: expected 0 or more, got -5"},
		{"a pod without a number", change(addPod(), func(x *Delta) { x.Pod.Number = 0 }), "pod.number: expected 1 or more, got 0"},
		{"a pod with two usages", change(addPod(), func(x *Delta) { x.Pod.Usage = validUsage() }), "pod.usage: expected none beside add_pod"},
		{"budgets out of order", change(addPod(), func(x *Delta) { x.Pod.Budgets[1] = 1 }), "pod.budgets[1]: expected more than 1, got 1"},
		{"something in common twice", change(addPod(), func(x *Delta) { x.Pod.Shared[1].Token = 5 }), "pod.shared[1]: expected them sorted by counter and token, each once"},
		{"a removed pod without a number", change(removePod(), func(x *Delta) { x.Pod.Number = 0 }), "pod.number: expected 1 or more, got 0"},
		{"a changed pod with a usage", change(changePod(), func(x *Delta) { x.GetChangePod().UsageRef = 1 }), "change_pod.usage: expected none"},
		{"a pod of a node", change(setNode(), func(x *Delta) { x.Pod = validPlaced() }), "pod: expected none without add_pod and remove_pod"},
		{"counted pods of other rows", change(setCounterOfPods(), func(x *Delta) { x.GetSetCounter().PodRows = []uint32{1} }), "set_counter.pod_numbers: expected 1 as in pod_rows, got 2"},
		{"a counted pod twice", change(setCounterOfPods(), func(x *Delta) { x.GetSetCounter().PodNumbers[1] = 1 }), "set_counter.pod_numbers[1]: expected pods sorted by row and number, each once"},
		{"a part of a counter without rows", change(setCounterOfPods(), func(x *Delta) { x.GetSetCounter().FromRow, x.GetSetCounter().ToRow = 3, 3 }), "set_counter.to_row: expected more than from_row, 3, and at most 4194304, got 3"},
		{"a part of a counter with rows beyond it", change(setCounterOfPods(), func(x *Delta) { x.GetSetCounter().ToRow = 3 }), "set_counter.rows: expected rows from 0 on and before 3, got 3 to 3"},
		{"a part of a counter with pods before it", change(setCounterOfPods(), func(x *Delta) {
			x.GetSetCounter().Rows, x.GetSetCounter().Values = nil, nil
			x.GetSetCounter().FromRow, x.GetSetCounter().ToRow = 4, 5
		}), "set_counter.pod_rows: expected rows from 4 on and before 5, got 3 to 3"},
		{"rows to skip out of order", evaluate(func(x *EvaluateRequest) { x.Preemptions[0].SkipShards[2] = 0 }), "preemptions[0].skip_rows[2]: expected rows sorted by shard and row, each once"},
		{"a budget twice", evaluate(func(x *EvaluateRequest) { x.Preemptions[0].Budgets[1].Id = 1 }), "preemptions[0].budgets[1].id: expected more than 1, got 1"},
		{"pinned sums without domains", evaluate(func(x *EvaluateRequest) { x.Classes[0].Pins = []*PinnedSums{{Sums: []int64{1}}} }), "classes[0].pins[0].sums: expected as many as domains, 0, got 1"},
		{"a pinned sum of 0", evaluate(func(x *EvaluateRequest) {
			x.Preemptions[0].Pins = []*PinnedSums{{Domains: []string{"a", "b"}, Sums: []int64{-1, 0}}}
		}), "preemptions[0].pins[0].sums[1]: expected a number other than 0 from -4611686018427387904 to 4611686018427387904, got 0"},
		{"a pinned domain twice", evaluate(func(x *EvaluateRequest) {
			x.Classes[0].Pins = []*PinnedSums{{Domains: []string{"a", "a"}, Sums: []int64{1, 1}}}
		}), `classes[0].pins[0].domains[1]: expected a text after "a", got "a"`},
		{"pinned terms beside counters", query(func(x *Query) { x.RowValues = []*RowValue{{TopologyKey: "a", Pinned: pinnedTerms(1)}} }), "row_values[0].pinned: expected none beside topology_key, counters or inclusion"},
		{"pinned terms of no label", query(func(x *Query) {
			x.RowValues = []*RowValue{{Pinned: []*PinnedTerms{{}}}}
		}), "row_values[0].pinned[0].topology_key: expected a value, got none"},
		{"pinned terms of no counter", query(func(x *Query) {
			x.RowValues = []*RowValue{{Pinned: []*PinnedTerms{{TopologyKey: "a"}}}}
		}), "row_values[0].pinned[0].counters: expected at least one, got none"},
		{"very many pinned terms", query(func(x *Query) { x.RowValues = []*RowValue{{Pinned: pinnedTerms(MaxPinned + 1)}} }), "row_values[0].pinned: expected at most 4096, got 4097"},
		{"a pinned value to spread by", query(func(x *Query) {
			x.RowValues = []*RowValue{{Pinned: pinnedTerms(MaxPinned)}}
			x.Spread = &SpreadQuery{Soft: []*SoftConstraint{{Place: &Place{In: &Place_RowValue{}}, MaxSkew: 1}}}
		}), "spread.soft[0].place.row_value: expected one that is not pinned, got 0"},
		{"no candidates", evaluate(func(x *EvaluateRequest) { x.Preemptions[0].Candidates = 0 }), "preemptions[0].candidates: expected 1 to 65536, got 0"},

		{"totals of less than no pods", change(validTotals(), func(x *NodeTotals) { x.Pods = -1 }), "pods: expected 0 or more, got -1"},
		{"a port that no pod holds", change(validTotals(), func(x *NodeTotals) { x.Ports[0].Pods = 0 }), "ports[0].pods: expected 1 or more, got 0"},
		{"a port use without a port", change(validTotals(), func(x *NodeTotals) { x.Ports[0].Port = nil }), "ports[0].port: expected a host port, got none"},
		{"a port twice", change(validTotals(), func(x *NodeTotals) { x.Ports[1].Port.Port = 80 }), "ports[1].port: expected ports sorted by ip, protocol, port, each once"},
		{"a row without a node", &SnapshotRow{Row: 1}, "node: expected a node, got none"},
		{"a row with broken totals", &SnapshotRow{Node: validNode(), Totals: &NodeTotals{Requested: &Resources{MilliCpu: -1}}}, "totals.requested.milli_cpu: expected 0 or more, got -1"},

		{"a query without an id", query(func(x *Query) { x.ClassId = 0 }), "class_id: expected an id, got 0"},
		{"a filter that only scores", query(func(x *Query) { x.Filters[1] = Plugin_PLUGIN_IMAGE_LOCALITY }), "filters[1]: expected a plugin that filters, got PLUGIN_IMAGE_LOCALITY"},
		{"a filter twice", query(func(x *Query) { x.Filters[1] = x.Filters[0] }), "filters[1]: expected each plugin once, got PLUGIN_NODE_UNSCHEDULABLE again"},
		{"a score that only filters", query(func(x *Query) { x.Scores[0].Plugin = Plugin_PLUGIN_NODE_NAME }), "scores[0].plugin: expected a plugin that scores, got PLUGIN_NODE_NAME"},
		{"a score twice", query(func(x *Query) { x.Scores[1].Plugin = x.Scores[0].Plugin }), "scores[1].plugin: expected each plugin once, got PLUGIN_TAINT_TOLERATION again"},
		{"weights that overflow together", query(func(x *Query) { x.Scores[1].Weight = maxWeight }), "scores[1].weight: expected the weights to add up to at most 92233720368547758"},
		{"weight 0", query(func(x *Query) { x.Scores[1].Weight = 0 }), "scores[1].weight: expected 1 to 92233720368547758, got 0"},
		{"fit without its part", query(func(x *Query) { x.Fit = nil }), "fit: expected for NodeResourcesFit, got none"},
		{"fit that scores by nothing", query(func(x *Query) { x.Fit.ScoringType = 0 }), "fit.scoring_type: expected a strategy for NodeResourcesFit to score by, got none"},
		{"affinity without its part", query(func(x *Query) { x.NodeAffinity = nil }), "node_affinity: expected for NodeAffinity, got none"},
		{"balanced without its part", query(func(x *Query) { x.Balanced = nil }), "balanced: expected for NodeResourcesBalancedAllocation, got none"},
		{"images without their part", query(func(x *Query) { x.Images = nil }), "images: expected for ImageLocality, got none"},
		{"a shape that goes back", query(func(x *Query) { x.Fit.Shape[1].Utilization = 0 }), "fit.shape[1].utilization: expected more than 0, got 0"},
		{"a shape above 100 %", query(func(x *Query) { x.Fit.Shape[1].Utilization = 101 }), "fit.shape[1].utilization: expected 0 to 100, got 101"},
		{"a ratio without a shape", query(func(x *Query) { x.Fit.Shape = nil }), "fit.shape: expected at least one point for SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO, got none"},
		{"narrowed to nothing", query(func(x *Query) { x.Narrowed.Names = nil }), "narrowed.names: expected at least one, got none"},
		{"narrowed by nobody", query(func(x *Query) { x.Narrowed.Plugins = nil }), "narrowed.plugins: expected at least one, got none"},
		{"narrowed out of order", query(func(x *Query) { x.Narrowed.Names = []string{"b", "a"} }), `narrowed.names[1]: expected a name after "b", got "a"`},
		{"a toleration without an operator", query(func(x *Query) { x.Tolerations[0].Operator = 0 }), "tolerations[0].operator: expected a specified value, got TOLERATION_OPERATOR_UNSPECIFIED"},
		{"a toleration of an unknown effect", query(func(x *Query) { x.Tolerations[0].Effect = -1 }), "tolerations[0].effect: expected a known effect, got -1"},
		{"an empty term", query(func(x *Query) { x.NodeAffinity.Required.Terms[1] = &SelectorTerm{} }), "node_affinity.required.terms[1]: expected at least one requirement, got none"},
		{"In without values", query(func(x *Query) { x.NodeAffinity.Added.Terms[0].Labels[0].Values = nil }), "node_affinity.added.terms[0].labels[0].values: expected at least one for SELECTOR_OPERATOR_IN, got none"},
		{"Exists with values", query(func(x *Query) { x.NodeAffinity.Added.Terms[0].Labels[1].Values = []string{""} }), "node_affinity.added.terms[0].labels[1].values: expected none for SELECTOR_OPERATOR_EXISTS, got 1"},
		{"Exists with a bound", query(func(x *Query) { x.NodeAffinity.Added.Terms[0].Labels[1].Bound = 1 }), "node_affinity.added.terms[0].labels[1].bound: expected 0 for SELECTOR_OPERATOR_EXISTS, got 1"},
		{"a name requirement other than In and NotIn", query(func(x *Query) { x.NodeAffinity.Added.Terms[0].Names[0].Operator = 3 }), "node_affinity.added.terms[0].names[0].operator: expected a specified value, got SELECTOR_OPERATOR_EXISTS"},
		{"a preference of weight 101", query(func(x *Query) { x.NodeAffinity.Preferred[0].Weight = 101 }), "node_affinity.preferred[0].weight: expected 1 to 100, got 101"},
		{"a preference without a term", query(func(x *Query) { x.NodeAffinity.Preferred[0].Term = nil }), "node_affinity.preferred[0].term: expected at least one requirement, got none"},
		{"a node selector twice on a key", query(func(x *Query) { x.NodeAffinity.NodeSelector[1].Key = "a" }), `node_affinity.node_selector[1].key: expected a key after "a", got "a"`},
		{"a scored resource of weight 0", query(func(x *Query) { x.Balanced.Scored[0].Weight = 0 }), "balanced.scored[0].weight: expected 1 to 100, got 0"},
		{"a negative request to score", query(func(x *Query) { x.Fit.Scored[0].Request = -1 }), "fit.scored[0].request: expected 0 or more, got -1"},
		{"an image of negative size", query(func(x *Query) { x.Images.Images[0].ScaledBytes = -1 }), "images.images[0].scaled_bytes: expected 0 or more, got -1"},
		{"images without containers", query(func(x *Query) { x.Images.Containers = 0 }), "images.containers: expected 1 to 1048576, got 0"},

		{"a label without a key", query(func(x *Query) { x.Within = &Label{Value: "a"} }), "within.key: expected a value, got none"},
		{"alone by nobody's term", query(func(x *Query) { x.InterPodAffinity = &InterPodAffinityQuery{Alone: []uint32{0}} }), "inter_pod_affinity.alone[0]: expected row values of anti, ascending, got 0"},

		{"no cluster", evaluate(func(x *EvaluateRequest) { x.Cluster = "" }), "cluster: expected a value, got none"},
		{"a cluster that would leave its folder", evaluate(func(x *EvaluateRequest) { x.Cluster = "a/b" }), `cluster: expected a name without "/", got "a/b"`},
		{"no term", evaluate(func(x *EvaluateRequest) { x.Term = 0 }), "term: expected a term, got 0"},
		{"a shard twice", evaluate(func(x *EvaluateRequest) { x.Shards[1].Shard = 0 }), "shards[1].shard: expected each shard once, got 0 again"},
		{"a shard far outside", evaluate(func(x *EvaluateRequest) { x.Shards[1].Shard = MaxShard }), "shards[1].shard: expected 0 to 1048575, got 1048576"},
		{"a delta missing", evaluate(func(x *EvaluateRequest) { x.Shards[0].Generation = 8 }), "shards[0].generation: expected base_generation 5 plus 2 deltas, got 8"},
		{"a generation before its base", evaluate(func(x *EvaluateRequest) { x.Shards[1].Generation = 2 }), "shards[1].generation: expected base_generation 3 plus 0 deltas, got 2"},
		{"no candidates asked for", evaluate(func(x *EvaluateRequest) { x.Candidates[0] = 0 }), "candidates[0]: expected 1 to 65536, got 0"},
		{"too many candidates asked for", evaluate(func(x *EvaluateRequest) { x.Candidates[0] = 65537 }), "candidates[0]: expected 1 to 65536, got 65537"},
		{"too few numbers of candidates", evaluate(func(x *EvaluateRequest) { x.Candidates = nil }), "candidates: expected one for each of 2 classes, got 0"},
		{"extrema in the first round", evaluate(func(x *EvaluateRequest) { x.Classes[1].Normalise = false }), "classes[1].extrema: expected none without normalise, got 2"},
		{"keys without copies", evaluate(func(x *EvaluateRequest) { x.Classes[1].Copies = false }), "classes[1].copy_keys: expected none without copies, got 2"},
		{"copies with a diagnosis", evaluate(func(x *EvaluateRequest) { x.Classes[1].Diagnose = true }), "classes[1].copies: expected none with diagnose"},
		{"copies by a key twice", evaluate(func(x *EvaluateRequest) { x.Classes[1].CopyKeys[1] = "zone" }), `classes[1].copy_keys[1]: expected each key once, got "zone" again`},
		{"copies by too many keys", evaluate(func(x *EvaluateRequest) {
			x.Classes[1].CopyKeys = slices.Repeat(x.Classes[1].CopyKeys, MaxCopyKeys)
		}), "classes[1].copy_keys: expected at most 16, got 32"},
		{"copies by nothing", evaluate(func(x *EvaluateRequest) { x.Classes[1].CopyKeys[1] = "" }), "classes[1].copy_keys[1]: expected a value, got none"},
		{"a broken query", evaluate(func(x *EvaluateRequest) { x.Queries[0].Fit = nil }), "queries[0].fit: expected for NodeResourcesFit, got none"},
		{"a variant of itself", evaluate(func(x *EvaluateRequest) { x.Variants[0].Original = 43 }), "variants[0].original: expected the id of another class, got 43"},
		{"a variant of nothing", evaluate(func(x *EvaluateRequest) { x.Variants[0].Original = 0 }), "variants[0].original: expected the id of another class, got 0"},
		{"a variant without an id", evaluate(func(x *EvaluateRequest) { x.Variants[0].ClassId = 0 }), "variants[0].class_id: expected an id, got 0"},
		{"a variant of a negative request", evaluate(func(x *EvaluateRequest) { x.Variants[0].Requests.MilliCpu = -1 }), "variants[0].requests.milli_cpu: expected 0 or more, got -1"},
		{"a variant of a negative score", evaluate(func(x *EvaluateRequest) { x.Variants[0].FitScored[0] = -1 }), "variants[0].fit_scored[0]: expected 0 or more, got -1"},
		{"a variant of a negative balance", evaluate(func(x *EvaluateRequest) { x.Variants[0].BalancedScored[0] = -1 }), "variants[0].balanced_scored[0]: expected 0 or more, got -1"},
		{"more variants than classes", evaluate(func(x *EvaluateRequest) { x.Variants = slices.Repeat(x.Variants, 4) }), "variants: expected at most one for each of 3 classes, got 4"},

		{"more feasible rows than rows", result(func(x *ClassResult) { x.Rows = 4 }), "results[0].feasible: expected at most the 4 rows, got 5"},
		{"groups that lose a row", columns(func(x *GroupColumns) { x.Rows[0] = 2 }), "results[0].groups: expected the 5 feasible rows, got 4"},
		{"a group too many", columns(func(x *GroupColumns) { x.Rows = append(x.Rows, 1) }), "groups.rows: expected 2 groups as in all results, got 3"},
		{"more groups than there are", result(func(x *ClassResult) { x.Groups = 1 << 31 }), "groups.rows: expected 2147483648 groups as in all results, got 2"},
		{"a number of candidates missing", columns(func(x *GroupColumns) { x.Candidates = x.Candidates[1:] }), "groups.candidates: expected 2 groups as in all results, got 1"},
		{"rows of candidates missing", columns(func(x *GroupColumns) { x.RowRefs = x.RowRefs[1:] }), "groups.row_refs: expected 3 as in candidates, got 2"},
		{"rows of no shard", columns(func(x *GroupColumns) { x.Shards = 0 }), "groups.shards: expected 1 to 1048576, got 0"},
		{"runs missing", columns(func(x *GroupColumns) { x.Runs = x.Runs[1:] }), "groups.runs: expected 3 as in candidates, got 2"},
		{"an empty run", columns(func(x *GroupColumns) { x.Runs[1] = 0 }), "groups.runs[1]: expected 1 or more, got 0"},
		{"a run of two groups", columns(func(x *GroupColumns) { x.Runs, x.RunScores = []uint32{1, 2}, []int64{90, 10} }), "groups.runs[1]: expected at most the 1 candidates that are left of the group, got 2"},
		{"a score too many", columns(func(x *GroupColumns) { x.RunScores = append(x.RunScores, 1) }), "groups.run_scores: expected 3 as in runs, got 4"},
		{"the second best first", columns(func(x *GroupColumns) { x.RunScores[1] = -1 }), "groups.run_scores[1]: expected how much less than 90, got -1"},
		{"two runs of one score", columns(func(x *GroupColumns) { x.RunScores[1] = 0 }), "groups.run_scores[1]: expected how much less than 90, got 0"},
		{"a score below all", columns(func(x *GroupColumns) { x.RunScores[0], x.RunScores[1] = -2, math.MaxInt64 }), "groups.run_scores[1]: expected how much less than -2, got 9223372036854775807"},
		{"more candidates than rows", columns(func(x *GroupColumns) { x.Rows[0] = 1 }), "groups.candidates[0]: expected at most the 1 rows of the group, got 2"},
		{"a candidate far outside", columns(func(x *GroupColumns) { x.RowRefs[1] = 2 * MaxRow }), "groups.row_refs[1]: expected a row up to 4194303, got 4194304"},
		{"keys out of order", columns(func(x *GroupColumns) { x.Keys[0] = 2 }), "groups.rows[1]: expected groups sorted by key, each once"},
		{"a key twice", columns(func(x *GroupColumns) { x.Keys = []int64{1, 0, 1, 0} }), "groups.rows[1]: expected groups sorted by key, each once"},
		{"keys too long", columns(func(x *GroupColumns) { x.Keys = append(x.Keys, 1) }), "groups.keys: expected 4 as in the keys of all results, got 5"},
		{"domains of nobody", columns(func(x *GroupColumns) { x.Domains = []string{"z"} }), "groups.domains: expected 0 as in the keys of all results, got 1"},
		{"domains missing", result(func(x *ClassResult) { x.KeyDomains = 1 }), "groups.domains: expected 2 as in the keys of all results, got 0"},
		{"too many domains", result(func(x *ClassResult) { x.KeyDomains = MaxDomainKeys + 1 }), fmt.Sprintf("results[0].key_domains: expected 0 to %d, got %d", MaxDomainKeys, MaxDomainKeys+1)},
		{"row values missing", result(func(x *ClassResult) { x.KeyValues = 1 }), "groups.row_values: expected 2 as in the keys of all results, got 0"},
		{"late filters missing", result(func(x *ClassResult) { x.Late = true }), "groups.late_filters: expected 2 as in the keys of all results, got 0"},
		{"late filters of nobody", columns(func(x *GroupColumns) { x.LateFilters = []uint32{1} }), "groups.late_filters: expected 0 as in the keys of all results, got 1"},
		{"a group without rows", columns(func(x *GroupColumns) { x.Rows[1] = 0 }), "groups.rows[1]: expected 1 or more, got 0"},
		{"keys beside extrema", result(func(x *ClassResult) { x.Extrema = []int64{1} }), "results[0].key_scores: expected none beside extrema, got 2"},
		{"groups in spite of overflow", result(func(x *ClassResult) { x.Overflow = true }), "results[0].groups: expected none with overflow, got 2"},
		{"copies of no rows", result(func(x *ClassResult) { x.Copies.Total = 10*MaxCopies + 1 }), fmt.Sprintf("results[0].copies.total: expected 0 to %d of 10 rows, got %d", 10*int64(MaxCopies), 10*int64(MaxCopies)+1)},
		{"less than no copies", result(func(x *ClassResult) { x.Copies.Total = -1 }), fmt.Sprintf("results[0].copies.total: expected 0 to %d of 10 rows, got -1", 10*int64(MaxCopies))},
		{"copies by too many keys", result(func(x *ClassResult) { x.Copies.Keys = slices.Repeat(x.Copies.Keys, MaxCopyKeys) }), "results[0].copies.keys: expected at most 16, got 32"},
		{"copies by nothing", result(func(x *ClassResult) { x.Copies.Keys[0].Key = "" }), "results[0].copies.keys[0].key: expected a value, got none"},
		{"copies of domains that are too many", result(func(x *ClassResult) { x.Copies.Keys[0].Many = true }), "results[0].copies.keys[0].domains: expected at most 65536, none of many, got 2"},
		{"copies of too many domains", result(func(x *ClassResult) {
			x.Copies.Keys[0].Domains = make([]string, MaxCopyDomains+1)
		}), "results[0].copies.keys[0].domains: expected at most 65536, none of many, got 65537"},
		{"copies without a domain", result(func(x *ClassResult) { x.Copies.Keys[0].Domains = nil }), "results[0].copies.keys[0].sums: expected one for each of 0 domains, got 2"},
		{"copies of a domain twice", result(func(x *ClassResult) { x.Copies.Keys[0].Domains[1] = "a" }), "results[0].copies.keys[0].domains[1]: expected domains sorted, each once"},
		{"no copies of a domain", result(func(x *ClassResult) { x.Copies.Keys[0].Sums[1] = 0 }), "results[0].copies.keys[0].sums[1]: expected 1 to the 4 that are left of the total, got 0"},
		{"more copies than there are", result(func(x *ClassResult) { x.Copies.Keys[0].Sums[1] = 5 }), "results[0].copies.keys[0].sums[1]: expected 1 to the 4 that are left of the total, got 5"},
		{"reasons out of order", result(func(x *ClassResult) { x.Reasons[2].Plugin = "A" }), "results[0].reasons[2]: expected reasons sorted by plugin and text"},
		{"a reason for no node", result(func(x *ClassResult) { x.Reasons[2].Nodes = 0 }), "results[0].reasons[2].nodes: expected 1 or more, got 0"},
		{"a reason without words", result(func(x *ClassResult) { x.Reasons[2].Reason = "" }), "results[0].reasons[2].reason: expected a text, got none"},
		{"a pass that refuses more rows than it looks at", passes(func(x *PassColumns) { x.RowsRefused[0] = 11 }), "passes.rows_refused[0]: expected at most the 10 rows that the pass looked at, got 11"},
		{"a pass over fewer rows than none", passes(func(x *PassColumns) { x.RowsIn[1] = -6 }), "passes.rows_in[1]: expected -5 to 4294967290, got -6"},
		{"a pass over too many rows", passes(func(x *PassColumns) { x.RowsIn[1] = math.MaxInt64 }), "passes.rows_in[1]: expected -5 to 4294967290, got 9223372036854775807"},
		{"a pass too many", passes(func(x *PassColumns) { x.Nanos = append(x.Nanos, 1) }), "passes.nanos: expected 2 passes as in all results, got 3"},
		{"passes missing", result(func(x *ClassResult) { x.Passes = 3 }), "passes.plugins: expected 3 passes as in all results, got 2"},
		{"a pass of an unknown plugin", passes(func(x *PassColumns) { x.Plugins[0] = 99 }), "passes.plugins[0]: expected a specified value, got 99"},
		{"results beside missing snapshots", &EvaluateResponse{NeedSnapshots: []uint32{1}, Results: []*ClassResult{validResult()}}, "results: expected none where snapshots or classes are missing, got 1"},

		{"a header without a term", change(validSnapshot(), func(x *LoadSnapshotRequest) { x.Header.Term = 0 }), "header.term: expected a term, got 0"},
		{"rows out of order", change(validSnapshot(), func(x *LoadSnapshotRequest) { x.Rows[1].Row = 0 }), "rows[1].row: expected more than 0, got 0"},

		{"an object without bytes", &ApplyRequest{Objects: []*Object{{}}}, "objects[0].raw: expected an object, got none"},
		{"an object that has a revision", &ApplyRequest{Objects: []*Object{{Raw: []byte("{}"), Revision: 2}}}, "objects[0].revision: expected 0 in a request, got 2"},
		{"an object above 4 MiB", &ApplyRequest{Objects: []*Object{{Raw: []byte(long)}}}, "objects[0].raw: expected at most 4194304 bytes, got 10485760"},
		{"a pod without a namespace", &DeleteRequest{Refs: []*ObjectRef{{Kind: "Pod", Name: "a"}}}, "refs[0].namespace: expected a value, got none"},
		{"a node with a namespace", &DeleteRequest{Refs: []*ObjectRef{{Kind: "Node", Namespace: "d", Name: "a"}}}, `refs[0].namespace: expected none for a Node, got "d"`},
		{"an unknown kind", &DeleteRequest{Refs: []*ObjectRef{{Kind: "Widget", Name: "a"}}}, `refs[0].kind: expected a kind such as Node, Pod or Service, got "Widget"`},
		{"a name that would leave its folder", &ExplainRequest{Namespace: "d", Name: "../x"}, `name: expected a name without "/", got "../x"`},
		{"a page of everything", &ListObjectsRequest{Kind: "Pod", Limit: 10001}, "limit: expected 0 to 10000, got 10001"},
		{"a watch from beyond etcd", &WatchRequest{Kind: "Pod", AfterRevision: 1 << 63}, "after_revision: expected a revision of etcd, got 9223372036854775808"},
		{"more pod groups than a page has", &ListPodGroupsRequest{Limit: 1001}, "limit: expected 0 to 1000, got 1001"},
		{"pod groups of a namespace that would leave its folder", &ListPodGroupsRequest{Namespace: "../x"}, `namespace: expected a name without "/", got "../x"`},
		{"a state that is too long", &ListPodGroupsRequest{State: strings.Repeat("s", 5000)}, "state: expected at most 4096 bytes, got 5000"},
		{"no pod group", &ExplainPodGroupRequest{Namespace: "d"}, "name: expected a value, got none"},
		{"a pod group without a namespace", &ExplainPodGroupRequest{Name: "a"}, "namespace: expected a value, got none"},
		{"more members than a page has", &ExplainPodGroupRequest{Namespace: "d", Name: "a", Limit: 1001}, "limit: expected 0 to 1000, got 1001"},
		{"a verdict of a node that would leave its folder", &ExplainRequest{Namespace: "d", Name: "a", NodeNames: []string{"n", "../x"}}, `node_names[1]: expected a name without "/", got "../x"`},
		{"verdicts of too many nodes", &ExplainRequest{Namespace: "d", Name: "a", NodeNames: make([]string, 1001)}, "node_names: expected at most 1000 names, got 1001"},
		{"an explanation of too many nodes", &ExplainRequest{Namespace: "d", Name: "a", Top: 1001}, "top: expected 0 to 1000, got 1001"},

		{"a worker without cores", &WorkerRegistration{Id: "w", Address: "h:1"}, "cores: expected 1 to 4096, got 0"},
		{"a worker of too many cores", &WorkerRegistration{Id: "w", Address: "h:1", Cores: 4097}, "cores: expected 1 to 4096, got 4097"},
		{"a worker without a host", &WorkerRegistration{Id: "w", Address: ":1", Cores: 1}, `address: expected host:port, got ":1"`},
		{"a worker at port 0", &WorkerRegistration{Id: "w", Address: "h:0", Cores: 1}, `address: expected host:port, got "h:0"`},
		{"a worker at a named port", &WorkerRegistration{Id: "w", Address: "h:http", Cores: 1}, `address: expected host:port, got "h:http"`},
		{"a worker at a path", &WorkerRegistration{Id: "w", Address: "h/x:1", Cores: 1}, `address: expected host:port, got "h/x:1"`},
		{"a worker without a port", &WorkerRegistration{Id: "w", Address: "h", Cores: 1}, `address: expected host:port, got "h"`},
		{"a leader without an id", &LeaderRecord{Address: "h:1"}, "id: expected a value, got none"},
		{"a past decision of no pod", &HistoryChunk{Decisions: []*PastDecision{{Decision: &Decision{Seq: 1}}}}, "decisions[0].decision.uid: expected a uid, got none"},
		{"a past decision of a time that is none", &HistoryChunk{Decisions: []*PastDecision{{Decision: &Decision{Uid: "u"}, Time: &timestamppb.Timestamp{Nanos: -1}}}}, "decisions[0].time: expected a time from year 1 to 9999, got 0 s -1 ns"},
		{"a departure of no pod", &HistoryChunk{Departures: []*Departure{{Time: &timestamppb.Timestamp{}}}}, "departures[0].uid: expected a uid, got none"},
		{"a departure without its time", &HistoryChunk{Departures: []*Departure{{Uid: "u"}}}, "departures[0].time: expected a time, got none"},
		{"an entry without its pod", &QueueEntry{Pod: "a"}, `pod: expected namespace/name, got "a"`},
		{"an entry of a time that is none", &QueueEntry{Pod: "d/a", Queued: &timestamppb.Timestamp{Nanos: -1}}, "queued: expected a time from year 1 to 9999, got 0 s -1 ns"},
		{"a commit of no pod group", &GangCommit{PodGroup: "a", Parts: 1}, `pod_group: expected namespace/name, got "a"`},
		{"a commit of no part", &GangCommit{PodGroup: "d/a"}, "parts: expected 1 to 8192, got 0"},
		{"a commit of too many parts", &GangCommit{PodGroup: "d/a", Parts: 8193}, "parts: expected 1 to 8192, got 8193"},
		{"a part behind the last", &GangCommit{PodGroup: "d/a", Part: 2, Parts: 2}, "part: expected less than 2 parts, got 2"},
		{"a commit of too many pods", &GangCommit{PodGroup: "d/a", Parts: 1, Members: make([]*GangMember, 8193)}, "members: expected at most 8192, got 8193"},
		{"a member without a uid", &GangCommit{PodGroup: "d/a", Parts: 1, Members: []*GangMember{{Node: "n"}}}, "members[0].uid: expected a value, got none"},
		{"a member without a node", &GangCommit{PodGroup: "d/a", Parts: 1, Members: []*GangMember{{Uid: "u"}}}, "members[0].node: expected a value, got none"},
		{"a record of nothing", &Record{}, "expected what happened, got nothing that is known"},
		{"a record of a later format", &Record{What: &Record_Begin{Begin: &RecordBegin{Format: 2}}}, "begin.format: expected 1, got 2"},
		{"a record of an unknown kind", &Record{What: &Record_Change{Change: &RecordChange{Ref: &ObjectRef{Kind: "Thing"}}}},
			`change.ref.kind: expected a kind such as Node, Pod or Service, got "Thing"`},
		{"a record of a nomination of no pod", &Record{What: &Record_Nominated{Nominated: &RecordNominated{Node: "n"}}},
			"nominated.uid: expected a pod's UID, got none"},
		{"a record of a bind to no node", &Record{What: &Record_Bound{Bound: &RecordBound{Uid: "u"}}}, "bound.node: expected a node's name, got none"},
		{"rejectors out of order", &QueueEntry{Pod: "d/a", RejectedBy: []string{"b", "a"}}, `rejected_by[1]: expected a name after "b", got "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.m.Validate()
			if got := fmt.Sprint(err); got != c.want {
				t.Fatalf("got  %q\nwant %q", got, c.want)
			}
			checkPath(t, c.m, err)
		})
	}
}

// checkPath holds that an error's path is one of the message's own fields.
func checkPath(t *testing.T, m proto.Message, err error) {
	t.Helper()
	var e *FieldError
	if !errors.As(err, &e) {
		t.Fatalf("got %T, want a *FieldError", err)
	}
	if e.Path == "" {
		return
	}
	desc := m.ProtoReflect().Descriptor()
	for _, part := range strings.Split(e.Path, ".") {
		name, _, _ := strings.Cut(part, "[")
		if desc == nil {
			t.Fatalf("path %q goes on behind a scalar", e.Path)
		}
		if o := desc.Oneofs().ByName(protoreflect.Name(name)); o != nil {
			desc = nil
			continue
		}
		f := desc.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			t.Fatalf("path %q: %s has no field %q", e.Path, desc.FullName(), name)
		}
		if f.IsList() != strings.Contains(part, "[") && part != e.Path[strings.LastIndex(e.Path, ".")+1:] {
			t.Fatalf("path %q: an index exactly for a list, got %q", e.Path, part)
		}
		desc = f.Message()
	}
}

func TestLongStringsAreCutInErrors(t *testing.T) {
	err := (&DeleteRequest{Refs: []*ObjectRef{{Kind: strings.Repeat("K", 1<<20)}}}).Validate()
	if n := len(err.Error()); n > 200 {
		t.Errorf("got an error of %d bytes, want at most 200", n)
	}
}
