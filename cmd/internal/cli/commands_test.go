package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// memory is a coordinator that keeps objects in memory, for the client's commands.
type memory struct {
	pb.UnimplementedSchedulerServiceServer
	objects map[string]*pb.Object // by kind/namespace/name
	applied map[string][]byte     // the same, as they were sent
	applies int
	failAt  int  // the Apply that is refused; 0: none
	old     bool // it does not know the kinds that fill pods in
	sizes   []int
	notKept bool // an API server keeps the objects
	// pendings is by how many pods the first group is larger in the n-th answer of ListPending; nil: by none.
	pendings func(n int) uint64
	asked    int
}

// refused is what a coordinator says that keeps no objects.
func (m *memory) refused() error {
	if !m.notKept {
		return nil
	}
	s, err := status.New(codes.FailedPrecondition, "objects are the API server's").WithDetails(&pb.NotKept{})
	return cmp.Or(err, s.Err())
}

func key(r *pb.ObjectRef) string { return r.GetKind() + "/" + r.GetNamespace() + "/" + r.GetName() }

func (m *memory) Apply(_ context.Context, q *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	if err := m.refused(); err != nil {
		return nil, err
	}
	if m.applies++; m.applies == m.failAt {
		return nil, status.Error(codes.InvalidArgument, "the store is full")
	}
	m.sizes = append(m.sizes, len(q.GetObjects()))
	answer := &pb.ApplyResponse{}
	for _, o := range q.GetObjects() {
		outcome := pb.ApplyOutcome_APPLY_OUTCOME_CREATED
		if old := m.objects[key(o.GetRef())]; old != nil {
			outcome = pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED
			if bytes.Equal(m.applied[key(o.GetRef())], o.GetRaw()) {
				outcome = pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
			}
		}
		if !q.GetDryRun() {
			stored, err := m.stored(o)
			if err != nil {
				return nil, err
			}
			m.applied[key(o.GetRef())], m.objects[key(o.GetRef())] = o.GetRaw(), stored
		}
		answer.Outcomes = append(answer.Outcomes, outcome)
	}
	return answer, nil
}

// stored is an object with a UID.
func (m *memory) stored(o *pb.Object) (*pb.Object, error) {
	obj, err := objects.Decode(o.GetRaw())
	if err != nil || obj.GetUID() != "" {
		return o, err
	}
	obj.SetUID(types.UID(fmt.Sprintf("uid-of-%s", o.GetRef().GetName())))
	raw, err := objects.Encode(obj)
	return &pb.Object{Ref: o.GetRef(), Raw: raw}, err
}

func (m *memory) Delete(_ context.Context, q *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	if err := m.refused(); err != nil {
		return nil, err
	}
	answer := &pb.DeleteResponse{}
	for _, r := range q.GetRefs() {
		answer.Deleted = append(answer.Deleted, m.objects[key(r)] != nil)
		delete(m.objects, key(r))
	}
	return answer, nil
}

func (m *memory) ListObjects(_ context.Context, q *pb.ListObjectsRequest) (*pb.ListObjectsResponse, error) {
	if err := m.refused(); err != nil {
		return nil, err
	}
	if m.old && objects.Kind(q.GetKind()).FillsIn() {
		return nil, status.Error(codes.InvalidArgument, "kind: expected a kind such as Node, Pod or Service")
	}
	answer := &pb.ListObjectsResponse{Revision: 1}
	for _, k := range slices.Sorted(maps.Keys(m.objects)) {
		r := m.objects[k].GetRef()
		if r.GetKind() == q.GetKind() && cmp.Or(q.GetNamespace(), r.GetNamespace()) == r.GetNamespace() && cmp.Or(q.GetName(), r.GetName()) == r.GetName() {
			answer.Objects = append(answer.Objects, m.objects[k])
		}
	}
	return answer, nil
}

// Watch tells that every node of the list was deleted, then refuses.
func (m *memory) Watch(q *pb.WatchRequest, s grpc.ServerStreamingServer[pb.WatchResponse]) error {
	list, err := m.ListObjects(s.Context(), &pb.ListObjectsRequest{Kind: q.GetKind(), Namespace: q.GetNamespace()})
	if err != nil {
		return err
	}
	for _, o := range list.GetObjects() {
		event := &pb.WatchEvent{Type: pb.WatchEventType_WATCH_EVENT_TYPE_DELETED, Object: o}
		if err := s.Send(&pb.WatchResponse{Events: []*pb.WatchEvent{event}, Revision: 2}); err != nil {
			return err
		}
	}
	return status.Error(codes.PermissionDenied, "that was all")
}

func (m *memory) ListWorkers(context.Context, *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	return &pb.ListWorkersResponse{Workers: []*pb.WorkerStatus{
		{Id: "w-1", Address: "127.0.0.1:7460", Cores: 2, Shards: 8, Requests: 12345, Rows: 1 << 40, Busy: durationpb.New(1234567 * time.Microsecond), Version: "devel"},
		{Id: "w-2", Address: "127.0.0.1:7462", Cores: 16, Shards: 8, Failures: 1},
	}}, nil
}

func (m *memory) ListShards(context.Context, *pb.ListShardsRequest) (*pb.ListShardsResponse, error) {
	return &pb.ListShardsResponse{Shards: []*pb.ShardStatus{
		{Shard: 0, Nodes: 95, Generation: 1234, Workers: []string{"w-1", "w-2"}}, {Shard: 1, Nodes: 97, Generation: 99},
	}}, nil
}

func (m *memory) ListPlugins(context.Context, *pb.ListPluginsRequest) (*pb.ListPluginsResponse, error) {
	return &pb.ListPluginsResponse{Uses: []*pb.PluginUse{
		{Profile: "default-scheduler", Plugin: "CELFilter", ExtensionPoint: "Filter", Calls: 12, Took: durationpb.New(34500 * time.Microsecond), RowsIn: 60000, RowsOut: 120, Expressions: []string{"owned"}},
		{Profile: "batch", Plugin: "NodeResourcesFit", ExtensionPoint: "Score", Calls: 2, Took: durationpb.New(70 * time.Microsecond), RowsIn: 120, RowsOut: 120},
	}}, nil
}

func (m *memory) GetConfiguration(context.Context, *pb.GetConfigurationRequest) (*pb.GetConfigurationResponse, error) {
	return &pb.GetConfigurationResponse{
		Differences: []*pb.ConfigurationDifference{{Field: "clientConnection.qps", Default: "50", Value: "500"}, {Field: "profiles[batch].percentageOfNodesToScore", Value: "100"}},
		NoEffect:    []string{"parallelism: nodes are not looked at one by one"},
	}, nil
}

// ListDevices answers as a coordinator that knows the slices and claims.
func (m *memory) ListDevices(_ context.Context, q *pb.ListDevicesRequest) (*pb.ListDevicesResponse, error) {
	known := devices.New(devices.Config{})
	for _, o := range m.objects {
		obj, err := objects.Decode(o.GetRaw())
		if err != nil {
			return nil, err
		}
		known.Set(obj)
	}
	x := observe.NewDevices(known, q)
	defer x.Read().End()
	for step := x.Read().Step; !step(); {
	}
	return x.Page()
}

// ListDecisions answers with decisions of a page each, and with a new one whenever it is asked for what came after.
func (m *memory) ListDecisions(_ context.Context, q *pb.ListDecisionsRequest) (*pb.ListDecisionsResponse, error) {
	decided := func(seq uint64, d *pb.Decision) *pb.PastDecision {
		d.Seq, d.Profile, d.Nodes = seq, "default-scheduler", 52
		return &pb.PastDecision{
			Decision: d, Time: at(int(seq)), Attempt: 1, Took: durationpb.New(3 * time.Millisecond), Waited: durationpb.New(2 * time.Second),
			Kind: "Deployment", Workload: "web",
		}
	}
	vip := decided(9, &pb.Decision{Pod: "shop/vip", Message: "0/52 nodes are available", Nominated: "n1", Victims: []string{"lab/a", "lab/b"}})
	vip.Preemption = &pb.Preemption{
		Priority: 1000, Victims: []*pb.PreemptedPod{{Pod: "lab/a", Priority: 10}, {Pod: "lab/b"}},
		Budgets: []*pb.BudgetUse{{Budget: "lab/few", Allowed: 1, Victims: 2}, {Budget: "lab/many", Allowed: 5, Victims: 1}},
	}
	switch {
	case q.GetAfter() != "":
		m.asked++
		if q.GetAfter() != fmt.Sprint("n", m.asked) {
			return nil, status.Errorf(codes.InvalidArgument, "after: got %q", q.GetAfter())
		}
		return &pb.ListDecisionsResponse{Newest: fmt.Sprint("n", m.asked+1), Decisions: []*pb.PastDecision{
			decided(10+uint64(m.asked), &pb.Decision{Pod: fmt.Sprint("shop/new-", m.asked), Node: "n2", Score: 7, Feasible: 3}),
		}}, nil
	case q.GetOutcome() == pb.OutcomePreempting:
		return &pb.ListDecisionsResponse{Newest: "n1", Decisions: []*pb.PastDecision{vip}}, nil
	case q.GetContinueToken() == "":
		return &pb.ListDecisionsResponse{Newest: "n1", ContinueToken: "next", Decisions: []*pb.PastDecision{vip}}, nil
	}
	placed := decided(8, &pb.Decision{Pod: "shop/web-1", Node: "n2", Score: 471, Feasible: 12})
	placed.TraceId, placed.DecidedBy = "0af7651916cd43dd8448eb211c80319c", "coordinator-0"
	return &pb.ListDecisionsResponse{Newest: "n1", Decisions: []*pb.PastDecision{placed}}, nil
}

// ListTraces answers with a trace of one pod.
func (m *memory) ListTraces(_ context.Context, q *pb.ListTracesRequest) (*pb.ListTracesResponse, error) {
	if q.GetName() != "" && q.GetName() != "web-1" || q.GetSlow().AsDuration() > 25*time.Millisecond {
		return &pb.ListTracesResponse{}, nil
	}
	span := func(id, parent, name, service string, start, took time.Duration, attributes ...string) *pb.Span {
		return &pb.Span{
			Id: id, Parent: parent, Name: name, Service: service, Start: timestamppb.New(at(0).AsTime().Add(start)), Took: durationpb.New(took),
			Attributes: attributes,
		}
	}
	const ms = time.Millisecond
	failed := span("5", "3", "shardsched.v1.WorkerService/Evaluate", "shardsched-worker", 8*ms, 2*ms, "shardsched.term=2")
	failed.Error = "deadline"
	return &pb.ListTracesResponse{Traces: []*pb.Trace{{Id: "0af7651916cd43dd8448eb211c80319c", Spans: []*pb.Span{
		span("1", "", "schedule", "shardsched-coordinator", 0, 21*ms, "k8s.pod.name=web-1", "shardsched.score=471"),
		span("4", "1", "bind", "shardsched-coordinator", 18*ms, 3*ms),
		span("2", "1", "queue", "shardsched-coordinator", 0, ms),
		span("3", "1", "fan-out", "shardsched-coordinator", 2*ms, 14*ms, "shardsched.calls=1"),
		failed,
		span("6", "lost", "Filter NodeName", "shardsched-worker", 9*ms, 0),
	}}}}, nil
}

func (m *memory) ExplainNode(_ context.Context, q *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error) {
	if q.GetName() != "n1" {
		return nil, status.Errorf(codes.NotFound, "node %s is not known", q.GetName())
	}
	return &pb.ExplainNodeResponse{
		Node: "n1", Pods: 2, KeepsOff: []string{"taint x=y:NoSchedule"}, Stranded: []string{"69 % of cpu: memory is used up"},
		Amounts: []*pb.NodeAmount{
			{Resource: "cpu", Allocatable: 8000, Requested: 2500}, {Resource: "memory", Allocatable: 8 << 30, Requested: 8 << 30},
			{Resource: "pods", Allocatable: 110, Requested: 2}, {Resource: "gpu.example.com/gpu", Allocatable: 4},
		},
		Labels: []string{"rack=7", "topology.kubernetes.io/zone=b"}, Taints: []string{"x=y:NoSchedule", "old:PreferNoSchedule"},
		OnNode: []*pb.NodePod{
			{Namespace: "shop", Name: "db-0", Priority: 1000, Controller: "StatefulSet db", Requests: []*pb.ResourceQuantity{
				{Resource: "cpu", Quantity: 2000}, {Resource: "memory", Quantity: 8 << 30},
			}},
			{Namespace: "shop", Name: "web-1", Assumed: true},
		},
		PodsLeftOut: 3,
	}, nil
}

// GetNodeMap answers with what is told of nodes of two zones and of none.
func (m *memory) GetNodeMap(_ context.Context, q *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, error) {
	if err := q.Validate(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	out := &pb.GetNodeMapResponse{
		Fingerprint: 7, Nodes: 6, Scale: &pb.NodeScale{High: 100, Unit: "%", Nodes: 3},
		Groups:  []*pb.NodeGroup{{Values: []string{""}, Nodes: 1}, {Values: []string{"a"}, Nodes: 3}, {Values: []string{"b"}, Nodes: 2}},
		Cells:   []byte{0, 128, 125, 0, 0xe8, 3, 1, 128, 1, 128, 250, 0},
		Classes: []*pb.NodeClass{{Text: "has no " + cmp.Or(q.GetResource(), "cpu"), Nodes: 1}, {Text: "more is requested than there is", Nodes: 2}},
	}
	if q.GetColour() == pb.NodeColour_NODE_COLOUR_ROOM {
		out.Scale.Unit, out.Room = "pods", 137
	}
	if q.GetNamespace() != "" {
		out.Note = "of pod " + q.GetNamespace() + "/" + q.GetName() + ", plugin " + cmp.Or(q.GetPlugin(), "none")
	}
	return out, nil
}

func (m *memory) GetFragmentation(context.Context, *pb.GetFragmentationRequest) (*pb.GetFragmentationResponse, error) {
	return &pb.GetFragmentationResponse{Nodes: 3, CordonedNodes: 1, LeftOut: 2, Resources: []*pb.ResourceFragmentation{
		{
			Resource: "cpu", Allocatable: 24000, Requested: 12500, NodesByDecile: []uint32{1, 0, 0, 0, 0, 1, 0, 0, 0, 1}, Cordoned: 8000, Stranded: 500, StrandedNodes: 1, Largest: 3000, LargestNode: "n1",
		},
		{Resource: "pods", Allocatable: 330, Requested: 330, NodesByDecile: make([]uint32, 10)},
	}}, nil
}

// ListPending answers with what waits in all namespaces, or in one.
func (m *memory) ListPending(_ context.Context, q *pb.ListPendingRequest) (*pb.ListPendingResponse, error) {
	disk := []*pb.Cause{{Plugin: "NodeAffinity", Cause: "no node has label disk=ssd", Detail: "disk=hdd on 12", Help: "label a node"}}
	full := func(nodes string) []*pb.Cause {
		return []*pb.Cause{
			{Plugin: "NodeResourcesFit", Cause: "cpu: full on every node that is big enough", Detail: nodes, Help: "more such nodes"},
			{Plugin: "TaintToleration", Cause: "taint x:NoSchedule is not tolerated", Help: "a toleration"},
		}
	}
	all := []*pb.PendingGroup{
		{Causes: full("39 nodes"), Kind: "Deployment", Namespace: "shop", Name: "web", Pods: 40, Oldest: at(0), Example: "shop/web-1"},
		{Causes: full("7 nodes"), Kind: "StatefulSet", Namespace: "shop", Name: "db", Pods: 3, Oldest: at(60), Example: "shop/db-0"},
		{Causes: disk, Kind: "Deployment", Namespace: "shop", Name: "web", Pods: 2, Oldest: at(30), Example: "shop/web-2"},
		{Causes: disk, Kind: "Pod", Namespace: "lab", Name: "one", Pods: 1, Oldest: at(90), Example: "lab/one"},
	}
	if m.pendings != nil {
		m.asked++
		all[0].Pods += m.pendings(m.asked)
	}
	out := &pb.ListPendingResponse{Nodes: 52}
	for _, g := range all {
		if (q.GetNamespace() == "" || q.GetNamespace() == g.Namespace) && (q.GetLabelSelector() == "" || q.GetLabelSelector() == "app="+g.Name) {
			out.Groups = append(out.Groups, g)
			out.Pods += g.Pods
		}
	}
	return out, nil
}

// train is a gang that waits.
func train() *pb.PodGroupStatus {
	return &pb.PodGroupStatus{
		Namespace: "ml", Name: "train", Policy: "Gang", MinCount: 3, State: "unschedulable", Exist: 3, Fit: 2, Domain: "rack=r7", DomainFits: 2,
		Verdict: "pod group is unschedulable: 2 of 3 needed fit (3 exist)", Priority: 5,
	}
}

// keptPodGroups are those of the objects that are kept.
func (m *memory) keptPodGroups(q *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	known := groups.New(groups.All())
	for _, o := range m.objects {
		obj, err := objects.Decode(o.GetRaw())
		if err != nil {
			return nil, err
		}
		switch obj := obj.(type) {
		case *v1alpha2.PodGroup:
			obj.CreationTimestamp = metav1.Time{}
			known.Set(obj)
		case *v1.Pod:
			known.PodSet(obj, true)
		}
	}
	x, err := observe.NewPodGroups(q, known)
	if err != nil || known.Len() == 0 {
		return nil, err
	}
	defer x.Read().End()
	for step := x.Read().Step; !step(); {
	}
	return x.Page(), nil
}

// ListPodGroups answers with a page for each pod group, or with those that are kept.
func (m *memory) ListPodGroups(_ context.Context, q *pb.ListPodGroupsRequest) (*pb.ListPodGroupsResponse, error) {
	if kept, err := m.keptPodGroups(q); kept != nil || err != nil {
		return kept, err
	}
	if q.GetNamespace() == "default" {
		return &pb.ListPodGroupsResponse{Note: "PodGroups are not read: the feature gate GenericWorkload is off"}, nil
	}
	if q.GetContinueToken() == "" {
		return &pb.ListPodGroupsResponse{ContinueToken: "ml/train", PodGroups: []*pb.PodGroupStatus{train()}}, nil
	}
	return &pb.ListPodGroupsResponse{PodGroups: []*pb.PodGroupStatus{{
		Namespace: "ml", Name: "web", State: "gated", Exist: 1, Verdict: "waiting for pods's pod group \"web\" to appear in scheduling queue: 1 exist",
	}}}, nil
}

// ExplainPodGroup answers with a page for each member.
func (m *memory) ExplainPodGroup(_ context.Context, q *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	if q.GetName() != "train" {
		return nil, status.Errorf(codes.NotFound, "PodGroup %s/%s is not known", q.GetNamespace(), q.GetName())
	}
	g := train()
	g.Reasons = []*pb.ReasonCount{{Reason: "Insufficient nvidia.com/gpu", Nodes: 51}}
	e := &pb.ExplainPodGroupResponse{
		Status: g, DoNotFit: 1, HeldBack: 1, Fit: 1, TopologyKey: "rack", PreferredTopology: []string{"switch", "row"},
		SliceSize: 2, SliceTopology: "host", Notes: []string{"4 nodes are held for gang ml/big"},
	}
	members := []*pb.PodGroupMember{
		{Name: "train-2", State: "does not fit", Queue: "unschedulable", Attempts: 4, Message: "0/52 nodes are available: 51 Insufficient nvidia.com/gpu."},
		{Name: "train-1", State: "held back by mates", Queue: "unschedulable", Attempts: 4, Nominated: "n2", Message: "pod group is unschedulable"},
		{Name: "train-0", State: "fits", Node: "n1", Domain: "r7"},
	}
	at := len(q.GetContinueToken())
	if e.Members = members[at : at+1]; at < 2 {
		e.ContinueToken = strings.Repeat("x", at+1)
	}
	return e, nil
}

func (m *memory) GetSummary(context.Context, *pb.GetSummaryRequest) (*pb.GetSummaryResponse, error) {
	return &pb.GetSummaryResponse{Summary: &pb.Summary{Nodes: 3, Shards: 1, PodsBound: 2, Decisions: 2, Classes: 1}}, nil
}

func (m *memory) Explain(_ context.Context, q *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	switch q.GetName() {
	case "web":
		if q.GetKind() != "Deployment" {
			break
		}
		return &pb.ExplainResponse{
			Queue: "unschedulable", Attempts: 1, Workload: "Deployment default/web", Pod: "default/web-1", WorkloadPods: 3, WorkloadPending: 1,
		}, nil
	case "web-1": // an example of those that wait
		return &pb.ExplainResponse{Nodes: 1, Verdicts: []*pb.NodeVerdict{{Node: "n1", Refused: &pb.RefusedNode{
			Node: "n1", Plugin: "NodeResourcesFit", Shortfalls: []string{"memory: short by 1Gi"},
		}}}}, nil
	case "db-0":
		return &pb.ExplainResponse{Nodes: 1, Verdicts: []*pb.NodeVerdict{{Node: "n1", Scored: &pb.ScoredNode{Node: "n1"}}}}, nil
	case "one":
		return &pb.ExplainResponse{Nodes: 1, Causes: []*pb.Cause{{Plugin: "VolumeBinding", Cause: "no free volume"}}}, nil
	case "went":
		return &pb.ExplainResponse{Gone: at(70), Note: "preempted by pod default/vip"}, nil
	case "placed":
		return &pb.ExplainResponse{
			Node: "n2", Nodes: 3, Feasible: 2,
			Decision: &pb.Decision{Seq: 7, Pod: "default/placed", Node: "n2", Score: 623, Feasible: 2, Nodes: 3},
			Top: []*pb.ScoredNode{
				{Node: "node-with-a-long-name", Score: 630, Plugins: plugins(100, 80)},
				{Node: "n2", Score: 623, Chosen: true, Plugins: plugins(100, 73)},
			},
			NotAsked: []string{"plugin Maintenance"},
			Causes:   []*pb.Cause{{Plugin: "NodeResourcesFit", Cause: "cpu: big enough, but full", Nodes: 1, Preemption: "could help", Help: "more such nodes"}},
			History: []*pb.PastDecision{
				{
					Decision: &pb.Decision{Seq: 7, Node: "n2", Score: 623, Feasible: 2, Nodes: 3}, Time: at(90), Attempt: 2, TraceId: "0af7651916cd43dd8448eb211c80319c",
					Top: []*pb.ScoredNode{{Node: "n2", Score: 623, Chosen: true, Plugins: plugins(100, 73)}, {Node: "n3", Score: 620, Plugins: plugins(100, 70)}},
				},
				{Decision: &pb.Decision{Seq: 3, Nodes: 3, Message: "0/3 nodes are available: 3 Insufficient cpu."}, Time: at(60), Attempt: 1},
			},
			Verdicts: verdicts(q),
		}, nil
	case "pending":
		return &pb.ExplainResponse{
			Queue: "unschedulable", Attempts: 3, Nodes: 3,
			Decision: &pb.Decision{Message: "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s)."},
			Causes: []*pb.Cause{
				{
					Plugin: "TaintToleration", Cause: "taint dedicated=gpu:NoSchedule is not tolerated", Detail: "on 2 nodes", Nodes: 2,
					Preemption: "can't help", Help: "a toleration",
				},
				{Plugin: "NodeResourcesFit", Cause: "cpu: big enough, but full", Nodes: 1, Preemption: "found no victims", Help: "more such nodes"},
			},
			Waits: &pb.Waits{
				Plugins: []*pb.PluginWaits{
					{Plugin: "NodeResourcesFit", Events: []string{"Node Add", "Node UpdateNodeAllocatable", "AssignedPod Delete"}},
					{Plugin: "TaintToleration", Events: []string{"Node Add", "Node UpdateNodeTaint"}},
				},
				BackoffUntil: at(10), TriedAnyway: at(330),
			},
			Closest: []*pb.RefusedNode{{Node: "n1", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, Shortfalls: []string{"cpu: short by 500m"}}},
		}, nil
	case "tried":
		return &pb.ExplainResponse{Queue: "backoff", Attempts: 1}, nil
	case "stray":
		return &pb.ExplainResponse{Node: "gone", Note: "node gone does not exist (any more)"}, nil
	case "gated":
		return &pb.ExplainResponse{Queue: "gated", Note: "waiting for scheduling gates: [a b]"}, nil
	}
	return nil, status.Errorf(codes.NotFound, "no pod %s/%s", q.GetNamespace(), q.GetName())
}

// at is a time that many seconds after the start of a year.
func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC))
}

// verdicts are of the nodes that are asked for.
func verdicts(q *pb.ExplainRequest) []*pb.NodeVerdict {
	all := []*pb.NodeVerdict{
		{Node: "n1", Refused: &pb.RefusedNode{Node: "n1", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, Shortfalls: []string{"cpu: short by 500m"}}},
		{Node: "n2", Scored: &pb.ScoredNode{Node: "n2", Score: 623, Plugins: plugins(100, 73)}},
		{Node: "n9", Note: "there is no such node"},
	}
	return slices.DeleteFunc(all, func(v *pb.NodeVerdict) bool { return !q.GetAllNodes() && !slices.Contains(q.GetNodeNames(), v.Node) })
}

func plugins(taints, fit int64) []*pb.PluginScore {
	return []*pb.PluginScore{
		{Plugin: "TaintToleration", Normalised: taints, Weight: 3}, {Plugin: "NodeResourcesFit", Raw: fit, Normalised: fit, Weight: 1},
	}
}

// serve starts it on loopback.
func (m *memory) serve(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterSchedulerServiceServer(s, m)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// shell runs command lines against a coordinator in memory.
type shell struct {
	t       *testing.T
	server  *memory
	address string
	dir     string
}

func newShell(t *testing.T) *shell {
	s := &shell{t: t, server: &memory{objects: map[string]*pb.Object{}, applied: map[string][]byte{}}, dir: t.TempDir()}
	s.address = s.server.serve(t)
	return s
}

// run returns all that a command line writes, and its exit code where it is not 0.
func (s *shell) run(stdin string, args ...string) string {
	var out, errs bytes.Buffer
	streams := Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs, Env: func(name string) string {
		return map[string]string{addressVariable: s.address}[name]
	}}
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "DIR", s.dir)
	}
	code := Main(s.t.Context(), args, streams, Runs{})
	text := out.String()
	if errs.Len() > 0 {
		text += "stderr: " + strings.ReplaceAll(strings.TrimRight(errs.String(), "\n"), "\n", "\nstderr: ") + "\n"
	}
	if code != 0 {
		text += fmt.Sprintf("exit code %d\n", code)
	}
	return strings.ReplaceAll(text, s.dir+"/", "")
}

// TestCommands runs the command lines of testdata/commands:
//
//	shardsched         its arguments on the first line, standard input below
//	file name=NAME     writes a file of the folder DIR
//	fail apply=N       refuses the Nth Apply from now on
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, path string) {
		s := newShell(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "shardsched":
				line, stdin, _ := strings.Cut(d.Input, "\n")
				return s.run(stdin+"\n", strings.Fields(line)...)
			case "file":
				var name string
				d.ScanArgs(t, "name", &name)
				if err := os.WriteFile(filepath.Join(s.dir, name), []byte(d.Input+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return ""
			case "fail":
				d.ScanArgs(t, "apply", &s.server.failAt)
				s.server.applies = 0
				return ""
			}
			return "unknown command " + d.Cmd
		})
	})
}

// TestApplyInChunks holds that many objects go out in several requests, of one kind
// each, and that a refusal says how far it came.
func TestApplyInChunks(t *testing.T) {
	var text strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&text, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p-%d\"},\"spec\":{\"containers\":[{\"name\":\"a\"}]}}\n", i)
	}
	text.WriteString("{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}\n")

	s := newShell(t)
	if got, want := s.run(text.String(), "apply", "-q", "-f", "-"), "2501 created, 0 configured, 0 unchanged\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []int{1, 2000, 500}; !slices.Equal(s.server.sizes, want) {
		t.Errorf("got requests of %d objects, want %d", s.server.sizes, want)
	}

	s = newShell(t)
	s.server.failAt = 2
	want := "stderr: error: apply: 1 of 2501 objects are committed; pod/default/p-0 to pod/default/p-1999 were not committed; " +
		"the 500 after them were not (apply again to go on): the store is full\nexit code 1\n"
	if got := s.run(text.String(), "apply", "-q", "-f", "-"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A coordinator of an older version does not know the kinds that fill pods in: it keeps none.
func TestApplyToAnOlderCoordinator(t *testing.T) {
	s := newShell(t)
	s.server.old = true
	pod := "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"a\"}]}}\n"
	if got, want := s.run(pod, "apply", "-q", "-f", "-"), "1 created, 0 configured, 0 unchanged\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestApplyThatReachesNobody holds that one sentence says so, however many requests
// there are to send.
func TestApplyThatReachesNobody(t *testing.T) {
	text := ""
	for _, kind := range []string{"Namespace", "Node"} {
		text += fmt.Sprintf("{\"apiVersion\":\"v1\",\"kind\":%q,\"metadata\":{\"name\":\"a\"}}\n", kind)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and ends them
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for address, says := range map[string]string{"127.0.0.1:1": "nobody listens at %s (tried for 1ms)", l.Addr().String(): "no coordinator leads at %s for 1ms: "} {
		got := newShell(t).run(text, "apply", "-f", "-", "--address", address, "--patience", "1ms")
		want := "stderr: error: apply: nothing was committed: " + fmt.Sprintf(says, address)
		if !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 2 {
			t.Errorf("got %q, want one line that begins with %q, and an exit code", got, want)
		}
	}
}

// TestChunksStayBelowTheMessageLimit holds it for objects of any size.
func TestChunksStayBelowTheMessageLimit(t *testing.T) {
	for _, size := range []int{100, 100_000, 1_000_000, chunkBytes} {
		var all []*pb.Object
		for range 50 {
			all = append(all, &pb.Object{Ref: &pb.ObjectRef{Kind: "Pod"}, Raw: make([]byte, size)})
		}
		for sent := 0; sent < len(all); {
			n := chunk(all[sent:])
			total := 0
			for _, o := range all[sent : sent+n] {
				total += len(o.GetRaw())
			}
			if n < 1 || total > 4<<20 {
				t.Fatalf("size %d: got %d objects of %d bytes, want at least one and less than 4 MiB", size, n, total)
			}
			sent += n
		}
	}
}
