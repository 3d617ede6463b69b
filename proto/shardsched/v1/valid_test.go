package shardschedv1

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// message is what every validated message is.
type message interface {
	proto.Message
	Validate() error
}

// The functions below build one valid message of each type, with every field set that
// can be set at the same time.

func validNode() *Node {
	return &Node{
		Name:   "n1",
		Labels: []*Label{{Key: "a", Value: "1"}, {Key: "kubernetes.io/hostname", Value: "n1"}, {Key: "zone"}},
		Taints: []*Taint{{Key: "t", Value: "v", Effect: TaintEffect_TAINT_EFFECT_NO_EXECUTE}},
		Allocatable: &Resources{
			MilliCpu: 64000, MemoryBytes: 256 << 30, EphemeralStorageBytes: 1 << 40,
			Scalars: []*ScalarResource{{Name: "hugepages-2Mi"}, {Name: "nvidia.com/gpu", Quantity: 8}},
		},
		AllowedPods: 110,
		Images:      []string{"docker.io/a:latest", "docker.io/b:latest"},

		DeclaredFeatures: []string{"A", "B"},
		VolumeLimits:     []*VolumeLimit{{Driver: "csi.a", Volumes: 25}, {Driver: "csi.b"}},
		MigratedPlugins:  []string{"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"},
	}
}

func validUsage() *PodUsage {
	return &PodUsage{
		Requests:        &Resources{MilliCpu: 100, Scalars: []*ScalarResource{{Name: "nvidia.com/gpu", Quantity: 1}}},
		NonZeroMilliCpu: 100, NonZeroMemoryBytes: 200 << 20,
		HostPorts: []*HostPort{validPort(80)},
	}
}

func validPort(port uint32) *HostPort {
	return &HostPort{Ip: "0.0.0.0", Protocol: Protocol_PROTOCOL_TCP, Port: port}
}

func validTotals() *NodeTotals {
	return &NodeTotals{
		Pods: 2, Requested: &Resources{MilliCpu: 200}, NonZeroMilliCpu: 200, NonZeroMemoryBytes: 400 << 20,
		Ports:        []*PortUse{{Port: validPort(80), Pods: 1}, {Port: validPort(443), Pods: 1}},
		LastDecision: 7,
	}
}

func addPod() *Delta {
	return &Delta{Row: 1, Change: &Delta_AddPod{AddPod: validUsage()}, Decision: 9, Pod: validPlaced()}
}

func validPlaced() *PlacedPod {
	return &PlacedPod{
		Number: 7, Priority: -5, StartMicros: 9, Budgets: []uint32{1, 4},
		Leaving: []*CounterValue{{Counter: 1, Value: 1}}, Shared: []*SharedCount{{Counter: 1, Token: 5}, {Counter: 1, Token: 6}},
	}
}

func changePod() *Delta { return &Delta{Row: 1, Change: &Delta_ChangePod{ChangePod: validPlaced()}} }

func removePod() *Delta {
	return &Delta{Row: 1, Change: &Delta_RemovePod{RemovePod: validUsage()}, Pod: &PlacedPod{Number: 7}}
}

func setCounterOfPods() *Delta {
	return &Delta{Change: &Delta_SetCounter{SetCounter: &CounterColumn{
		Counter: 1, Rows: []uint32{3}, Values: []int64{2}, PodRows: []uint32{3, 3}, PodNumbers: []uint64{1, 2}, PodValues: []int64{1, 1},
	}}}
}

func validPreemption() *PreemptionRequest {
	return &PreemptionRequest{
		ClassId: 42, Priority: 5, NowMicros: 7, Budgets: []*Budget{{Id: 1, Allowed: -1}, {Id: 2}},
		SkipShards: []uint32{0, 0, 1}, SkipRows: []uint32{1, 2, 0}, Candidates: 1,
		Measures: []*MeasureResult{{Rows: []uint32{1}, Sums: []int64{2}}},
	}
}

func validPreempted() *PreemptionResult {
	return &PreemptionResult{
		ClassId: 42, Tried: 3,
		Candidates: []*PreemptionCandidate{{Shard: 1, Row: 2, Victims: []uint64{3, 4}, Violations: 1, TopPriority: -1, PrioritySum: 9, EarliestStart: 1}},
		Reasons:    []*ReasonCount{{Reason: "No preemption victims found for incoming pod", Nodes: 1, Unresolvable: true}},
	}
}

func setNode() *Delta { return &Delta{Row: 2, Change: &Delta_SetNode{SetNode: validNode()}} }

func validTerm() *SelectorTerm {
	return &SelectorTerm{
		Labels: []*LabelRequirement{
			{Key: "zone", Operator: SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"a", "b"}},
			{Key: "gpu", Operator: SelectorOperator_SELECTOR_OPERATOR_EXISTS},
			{Key: "cores", Operator: SelectorOperator_SELECTOR_OPERATOR_GT, Bound: 4},
		},
		Names: []*NameRequirement{{Operator: SelectorOperator_SELECTOR_OPERATOR_IN, Name: "n1"}},
	}
}

func validQuery() *Query {
	return &Query{
		ClassId: 42,
		Filters: []Plugin{
			Plugin_PLUGIN_NODE_UNSCHEDULABLE, Plugin_PLUGIN_NODE_NAME, Plugin_PLUGIN_TAINT_TOLERATION,
			Plugin_PLUGIN_NODE_AFFINITY, Plugin_PLUGIN_NODE_PORTS, Plugin_PLUGIN_NODE_RESOURCES_FIT,
		},
		Scores: []*ScoreWeight{
			{Plugin: Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3}, {Plugin: Plugin_PLUGIN_NODE_AFFINITY, Weight: 2},
			{Plugin: Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1}, {Plugin: Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
			{Plugin: Plugin_PLUGIN_IMAGE_LOCALITY, Weight: 1},
		},
		Narrowed:    &NameSet{Names: []string{"n1", "n2"}, Plugins: []string{"NodeAffinity"}},
		NodeName:    "n1",
		Tolerations: []*Toleration{{Key: "t", Operator: TolerationOperator_TOLERATION_OPERATOR_EXISTS}},
		NodeAffinity: &NodeAffinityQuery{
			Added:        &NodeSelector{Terms: []*SelectorTerm{validTerm()}},
			NodeSelector: []*Label{{Key: "a", Value: "1"}, {Key: "b"}},
			Required:     &NodeSelector{Terms: []*SelectorTerm{validTerm(), validTerm()}},
			Preferred:    []*PreferredTerm{{Weight: 100, Term: validTerm()}},
		},
		HostPorts: []*HostPort{validPort(80)},
		Fit: &FitQuery{
			Requests: &Resources{MilliCpu: 100}, ScoringType: ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO,
			Scored: []*ScoredResource{{Name: "cpu", Weight: 1, Request: 100}},
			Shape:  []*ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 100}},
		},
		Balanced: &BalancedQuery{Scored: []*ScoredResource{{Name: "memory", Weight: 1}}},
		Images:   &ImageQuery{Images: []*ImageTerm{{Name: "docker.io/a:latest", ScaledBytes: 1 << 20}}, Containers: 1},
	}
}

func validEvaluate() *EvaluateRequest {
	return &EvaluateRequest{
		Cluster: "c", Term: 1, Preemptions: []*PreemptionRequest{validPreemption()},
		Shards: []*ShardDeltas{
			{Shard: 0, BaseGeneration: 5, Generation: 7, Deltas: []*Delta{setNode(), addPod()}},
			{Shard: 1, BaseGeneration: 3, Generation: 3},
		},
		Queries:    []*Query{validQuery()},
		Classes:    []*ClassRequest{{ClassId: 42, Diagnose: true}, {ClassId: 43, Normalise: true, Extrema: []int64{0, 5}, Copies: true, CopyKeys: []string{"zone", "rack"}}},
		Candidates: []uint32{64, 1},
		Variants:   []*Variant{{ClassId: 43, Original: 42, Requests: &Resources{MilliCpu: 5}, FitScored: []int64{5}, BalancedScored: []int64{0}}},
	}
}

func validResult() *ClassResult {
	return &ClassResult{
		ClassId: 42, Rows: 10, Feasible: 5,
		Groups: 2, Passes: 2, KeyScores: 2,
		Reasons: []*ReasonCount{
			{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 3},
			{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 1, Unresolvable: true},
			{Plugin: "NodeResourcesFit", Reason: "Too many pods", Nodes: 2},
		},
		Copies: &Copies{Total: 9, Keys: []*DomainCopies{{Key: "zone", Domains: []string{"a", "b"}, Sums: []int64{5, 2}}, {Key: "name", Many: true}}},
	}
}

// validResponse has the groups of one result, of three and two rows, with three candidates.
func validResponse() *EvaluateResponse {
	const filter, score = ExtensionPoint_EXTENSION_POINT_FILTER, ExtensionPoint_EXTENSION_POINT_SCORE
	return &EvaluateResponse{
		Results: []*ClassResult{validResult()}, BusyNanos: 1, Preemptions: []*PreemptionResult{validPreempted()},
		Groups: &GroupColumns{
			Rows: []uint32{3, 2}, Candidates: []uint32{2, 1}, Keys: []int64{0, 5, 1, 0},
			Shards: 2, RowRefs: []uint64{8, 5, 15}, Runs: []uint32{1, 1, 1}, RunScores: []int64{90, 5, 80},
		},
		Passes: &PassColumns{
			Plugins: []Plugin{Plugin_PLUGIN_NODE_NAME, Plugin_PLUGIN_IMAGE_LOCALITY}, ExtensionPoints: []ExtensionPoint{filter, score},
			Nanos: []uint64{5, 7}, RowsIn: []int64{10, 0}, RowsRefused: []uint32{5, 0},
		},
	}
}

func validSnapshot() *LoadSnapshotRequest {
	return &LoadSnapshotRequest{
		Header: &SnapshotHeader{Cluster: "c", Term: 1, Shard: 3, Generation: 9},
		Rows:   []*SnapshotRow{{Row: 0, Node: validNode(), Totals: validTotals(), Pods: []*PlacedPod{{Number: 3, UsageRef: 1}}}, {Row: 5, Node: validNode()}},
		Usages: []*PodUsage{validUsage()},
	}
}

func validEntry() *QueueEntry {
	return &QueueEntry{
		Pod: "default/a", Attempts: 3,
		FirstAttempt: timestamppb.New(timestamppb.Now().AsTime()), Queued: timestamppb.Now(), BackoffUntil: timestamppb.Now(),
		UnschedulableCount: 3, RejectedBy: []string{"NodeAffinity", "NodeResourcesFit"},
		Message: "0/2 nodes are available: 2 Insufficient cpu.",
	}
}

func validCommit() *GangCommit {
	return &GangCommit{PodGroup: "d/g", Term: 7, Seq: 9, Part: 1, Parts: 2, Members: []*GangMember{{Uid: "u1", Node: "n1"}, {Uid: "u2", Node: "n2"}}}
}

// validMessages is one of each message that comes from outside.
func validMessages() []message {
	return []message{
		validNode(), validTotals(), addPod(), setNode(), &SnapshotRow{Row: 1, Node: validNode(), Totals: validTotals()},
		validQuery(), validVolumes(), validEvaluate(), validSnapshot(), validEntry(), validCommit(),
		changePod(), removePod(), setCounterOfPods(),
		validResponse(),
		&EvaluateResponse{NeedSnapshots: []uint32{1}, NeedClasses: []uint64{2}},
		&ApplyRequest{Objects: []*Object{{Ref: &ObjectRef{Kind: "Pod", Namespace: "d", Name: "a"}, Raw: []byte("{}")}}},
		&DeleteRequest{Refs: []*ObjectRef{{Kind: "Node", Name: "n1"}}},
		&ListObjectsRequest{Kind: "Pod", Namespace: "d", Limit: 500},
		&WatchRequest{Kind: "Node", AfterRevision: 4},
		&ExplainRequest{Namespace: "d", Name: "a", Top: 5, NodeNames: []string{"n1"}, AllNodes: true},
		&ListPodGroupsRequest{Namespace: "d", LabelSelector: "team=a", State: "gated", Limit: 1000, ContinueToken: "d/a"},
		&ExplainPodGroupRequest{Namespace: "d", Name: "a", Limit: 1000, ContinueToken: "1/a"},
		&ListPendingRequest{Namespace: "d", LabelSelector: "app=web", PodsOfGroup: 10},
		&ListDecisionsRequest{Namespace: "d", NamePrefix: "a", Kind: "Job", Workload: "a", Node: "n1", Outcome: "placed", Slow: durationpb.New(1), Limit: 5},
		&GetNodeMapRequest{GroupLabels: []string{"zone", "rack"}, Colour: NodeColour_NODE_COLOUR_SCORE, Namespace: "d", Name: "a", Plugin: "X"},
		&GetNodeMapRequest{Colour: NodeColour_NODE_COLOUR_ROOM, Size: "cpu=1"}, &ListMapNodesRequest{Limit: 5}, &GetFragmentationRequest{},
		&ListDevicesRequest{NodeNames: []string{"n1"}, ContinueToken: "t"}, &ListWorkersRequest{}, &ListShardsRequest{}, &GetSummaryRequest{}, &GetLeaderRequest{},
		&WorkerRegistration{Id: "w1", Address: "127.0.0.1:7000", Cores: 2, Version: "v1"},
		&LeaderRecord{Id: "l1", Address: "[::1]:7000"},
		validDecisionRecord(), &Record{What: &Record_Begin{Begin: &RecordBegin{Format: 1, Term: 7}}}, validJudgementRecord(),
	}
}

func validJudgementRecord() *Record {
	return &Record{What: &Record_Judgement{Judgement: &RecordJudgement{
		Decision: &Decision{Seq: 1, Pod: "d/a", Uid: "u", Node: "n1", Score: 90}, Node: "n2", Passes: true, Score: 80,
	}}}
}

func validDecisionRecord() *Record {
	return &Record{What: &Record_Decision{Decision: &RecordDecision{Decision: &Decision{Seq: 1, Pod: "d/a", Uid: "u", Node: "n1"}}}}
}
