package shardschedv1

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// kind checks the kind of an object.
func kind(field, s string) error {
	if scopeOf(s) != unknownKind {
		return nil
	}
	return wrong(field, "expected a kind such as Node, Pod or Service, got %q", short(s))
}

// scope is where objects of a kind live.
type scope int

const (
	unknownKind scope = iota
	everywhere
	inNamespace
)

// scopeOf knows the kinds that a coordinator keeps.
func scopeOf(kind string) scope {
	switch kind {
	case "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
		"DeviceClass", "ResourceSlice", "PriorityClass", "RuntimeClass":
		return everywhere
	case "Pod", "Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PersistentVolumeClaim", "CSIStorageCapacity",
		"PodDisruptionBudget", "ResourceClaim", "ResourceClaimTemplate", "LimitRange", "PodGroup":
		return inNamespace
	}
	return unknownKind
}

// Validate checks that a namespace is named exactly where the kind has one.
func (x *ObjectRef) Validate() error {
	if err := kind("kind", x.GetKind()); err != nil {
		return err
	}
	if scopeOf(x.GetKind()) == inNamespace {
		if err := path("namespace", x.GetNamespace()); err != nil {
			return err
		}
	} else if x.GetNamespace() != "" {
		return wrong("namespace", "expected none for a %s, got %q", x.GetKind(), short(x.GetNamespace()))
	}
	return path("name", x.GetName())
}

// Validate checks that there is an object, and its name where it is given. What the
// bytes hold is for the store to judge.
func (x *Object) Validate() error {
	if x.GetRef() != nil {
		if err := x.GetRef().Validate(); err != nil {
			return in("ref", err)
		}
	}
	switch n := len(x.GetRaw()); {
	case n == 0:
		return wrong("raw", "expected an object, got none")
	case n > maxObject:
		return wrong("raw", "expected at most %d bytes, got %d", maxObject, n)
	}
	return nil
}

// Validate checks the objects, which have no revision yet.
func (x *ApplyRequest) Validate() error {
	for i, o := range x.GetObjects() {
		if err := o.Validate(); err != nil {
			return at("objects", i, err)
		}
		if o.Revision != 0 {
			return at("objects", i, wrong("revision", "expected 0 in a request, got %d", o.Revision))
		}
	}
	return nil
}

// Validate checks the references.
func (x *DeleteRequest) Validate() error { return each("refs", x.GetRefs()) }

// Validate checks kind, page size and names.
func (x *ListObjectsRequest) Validate() error {
	if err := kind("kind", x.GetKind()); err != nil {
		return err
	}
	if err := optionalPath("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if err := optionalPath("name", x.GetName()); err != nil {
		return err
	}
	if err := within("limit", int64(x.GetLimit()), 0, maxPageSize); err != nil {
		return err
	}
	return text("continue_token", x.GetContinueToken(), maxText)
}

// Validate checks kind and namespace.
func (x *WatchRequest) Validate() error {
	if err := kind("kind", x.GetKind()); err != nil {
		return err
	}
	if err := optionalPath("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if x.GetAfterRevision() > 1<<63-1 {
		return wrong("after_revision", "expected a revision of etcd, got %d", x.GetAfterRevision())
	}
	return nil
}

// optionalPath is path for a field that may be empty.
func optionalPath(field, s string) error {
	if s == "" {
		return nil
	}
	return path(field, s)
}

// Validate checks the pod's name and how many nodes are asked for.
func (x *ExplainRequest) Validate() error {
	if err := path("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if err := path("name", x.GetName()); err != nil {
		return err
	}
	if err := text("kind", x.GetKind(), maxText); err != nil {
		return err
	}
	if err := nodeNames(x.GetNodeNames()); err != nil {
		return err
	}
	if err := optionalPath("node_name_contains", x.GetNodeNameContains()); err != nil {
		return err
	}
	return within("top", int64(x.GetTop()), 0, maxTop)
}

// Validate checks the node's name.
func (x *ExplainNodeRequest) Validate() error { return path("name", x.GetName()) }

// Validate checks the labels, and that what is to be told of nodes has what it needs.
func (x *GetNodeMapRequest) Validate() error {
	if n := len(x.GetGroupLabels()); n > maxMapLabels {
		return wrong("group_labels", "expected at most %d labels, got %d", maxMapLabels, n)
	}
	for i, key := range x.GetGroupLabels() {
		if err := name("", key); err != nil {
			return at("group_labels", i, err)
		}
	}
	if _, known := NodeColour_name[int32(x.GetColour())]; !known {
		return wrong("colour", "expected a colour, got %d", x.GetColour())
	}
	ofPod := x.GetColour() == NodeColour_NODE_COLOUR_SCORE || x.GetColour() == NodeColour_NODE_COLOUR_ROOM && x.GetSize() == ""
	for _, f := range []struct {
		field, value string
		needed, may  bool
	}{
		{"resource", x.GetResource(), false, x.GetColour() == NodeColour_NODE_COLOUR_UNSPECIFIED},
		{"namespace", x.GetNamespace(), ofPod, ofPod},
		{"name", x.GetName(), ofPod, ofPod},
		{"plugin", x.GetPlugin(), false, x.GetColour() == NodeColour_NODE_COLOUR_SCORE},
		{"size", x.GetSize(), false, x.GetColour() == NodeColour_NODE_COLOUR_ROOM},
	} {
		switch {
		case f.value != "" && !f.may:
			return wrong(f.field, "expected none with this colour, got %q", short(f.value))
		case f.needed:
			if err := path(f.field, f.value); err != nil {
				return err
			}
		}
		if err := text(f.field, f.value, maxText); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks how many names are asked for.
func (x *ListMapNodesRequest) Validate() error {
	return within("limit", int64(x.GetLimit()), 0, maxTop)
}

// Validate holds: there is nothing to check.
func (x *GetFragmentationRequest) Validate() error { return nil }

// Validate checks the pod, the time and the number.
func (x *ListTracesRequest) Validate() error {
	if err := optionalPath("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if err := optionalPath("name", x.GetName()); err != nil {
		return err
	}
	if err := notNegative("slow", x.GetSlow()); err != nil {
		return err
	}
	return within("limit", int64(x.GetLimit()), 0, maxPageSize)
}

// Validate checks the namespace, and how long the selector is.
func (x *ListPendingRequest) Validate() error {
	if err := optionalPath("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if err := text("label_selector", x.GetLabelSelector(), maxText); err != nil {
		return err
	}
	return within("pods_of_group", int64(x.GetPodsOfGroup()), 0, maxTop)
}

// Validate checks the namespace, the state, the number, and how long the texts are.
func (x *ListPodGroupsRequest) Validate() error {
	if err := optionalPath("namespace", x.GetNamespace()); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{
		{"label_selector", x.GetLabelSelector()}, {"state", x.GetState()}, {"continue_token", x.GetContinueToken()},
	} {
		if err := text(f.name, f.value, maxText); err != nil {
			return err
		}
	}
	return within("limit", int64(x.GetLimit()), 0, maxTop)
}

// Validate checks the names, the number, and how long the token is.
func (x *ExplainPodGroupRequest) Validate() error {
	if err := path("namespace", x.GetNamespace()); err != nil {
		return err
	}
	if err := path("name", x.GetName()); err != nil {
		return err
	}
	if err := text("continue_token", x.GetContinueToken(), maxText); err != nil {
		return err
	}
	return within("limit", int64(x.GetLimit()), 0, maxTop)
}

// Outcomes are what a decision can be asked for by.
const (
	OutcomePlaced     = "placed"
	OutcomeNowhere    = "nowhere"
	OutcomePreempting = "preempting"
)

// Validate checks names, the outcome, the time, the number, and how long the tokens are.
func (x *ListDecisionsRequest) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"namespace", x.GetNamespace()}, {"name_prefix", x.GetNamePrefix()}, {"node", x.GetNode()}, {"workload", x.GetWorkload()},
	} {
		if err := optionalPath(f.name, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct{ name, value string }{
		{"kind", x.GetKind()}, {"profile", x.GetProfile()}, {"after", x.GetAfter()}, {"continue_token", x.GetContinueToken()},
	} {
		if err := text(f.name, f.value, maxText); err != nil {
			return err
		}
	}
	if x.GetKind() != "" && x.GetWorkload() == "" {
		return wrong("workload", "expected a name: kind is %q", short(x.GetKind()))
	}
	switch x.GetOutcome() {
	case "", OutcomePlaced, OutcomeNowhere, OutcomePreempting:
	default:
		return wrong("outcome", "expected %s, %s or %s, got %q", OutcomePlaced, OutcomeNowhere, OutcomePreempting, short(x.GetOutcome()))
	}
	if err := notNegative("slow", x.GetSlow()); err != nil {
		return err
	}
	return within("limit", int64(x.GetLimit()), 0, maxPageSize)
}

// notNegative checks a time that may be absent.
func notNegative(field string, d *durationpb.Duration) error {
	if d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
		return wrong(field, "expected a time of 0 or more, got %v", d)
	}
	return nil
}

// nodeNames checks the nodes that are asked for.
func nodeNames(names []string) error {
	if n := len(names); n > maxTop {
		return wrong("node_names", "expected at most %d names, got %d", maxTop, n)
	}
	for i, n := range names {
		if err := path("", n); err != nil {
			return at("node_names", i, err)
		}
	}
	return nil
}

// Validate checks the names of nodes, and how long the token is.
func (x *ListDevicesRequest) Validate() error {
	if err := nodeNames(x.GetNodeNames()); err != nil {
		return err
	}
	return text("continue_token", x.GetContinueToken(), maxText)
}

// Validate holds: there is nothing to check.
func (x *ListWorkersRequest) Validate() error { return nil }

// Validate holds: there is nothing to check.
func (x *ListShardsRequest) Validate() error { return nil }

// Validate holds: there is nothing to check.
func (x *GetSummaryRequest) Validate() error { return nil }

// Validate holds: there is nothing to check.
func (x *GetLeaderRequest) Validate() error { return nil }

// Validate checks a leader's record.
func (x *LeaderRecord) Validate() error {
	if err := path("id", x.GetId()); err != nil {
		return err
	}
	if x.GetAddress() == "" {
		return nil
	}
	return hostPort("address", x.GetAddress())
}

// Validate checks a journal entry.
func (x *QueueEntry) Validate() error {
	if err := podName("pod", x.GetPod()); err != nil {
		return err
	}
	if err := instant("first_attempt", x.GetFirstAttempt()); err != nil {
		return err
	}
	if err := instant("queued", x.GetQueued()); err != nil {
		return err
	}
	if err := instant("backoff_until", x.GetBackoffUntil()); err != nil {
		return err
	}
	if err := sortedNames("rejected_by", x.GetRejectedBy()); err != nil {
		return err
	}
	if err := text("nominated_node", x.GetNominatedNode(), maxText); err != nil {
		return err
	}
	return text("message", x.GetMessage(), maxMessage)
}

// maxGang is how many pods a pod group is placed with at once at the most.
const maxGang = 8192

// Validate checks a part of the commit of a pod group.
func (x *GangCommit) Validate() error {
	if err := podName("pod_group", x.GetPodGroup()); err != nil {
		return err
	}
	if x.GetParts() == 0 || x.GetParts() > maxGang {
		return wrong("parts", "expected 1 to %d, got %d", maxGang, x.GetParts())
	}
	if x.GetPart() >= x.GetParts() {
		return wrong("part", "expected less than %d parts, got %d", x.GetParts(), x.GetPart())
	}
	if err := atMost("members", len(x.GetMembers()), maxGang); err != nil {
		return err
	}
	for i, m := range x.GetMembers() {
		if err := name("uid", m.GetUid()); err != nil {
			return at("members", i, err)
		}
		if err := name("node", m.GetNode()); err != nil {
			return at("members", i, err)
		}
	}
	return nil
}

// Validate checks a part of the history: whose it is, and when. Its texts are bounded by the size of the whole.
func (x *HistoryChunk) Validate() error {
	if err := text("leader", x.GetLeader(), maxText); err != nil {
		return err
	}
	for i, d := range x.GetDecisions() {
		if d.GetDecision().GetUid() == "" {
			return at("decisions", i, wrong("decision.uid", "expected a uid, got none"))
		}
		if err := instant("time", d.GetTime()); err != nil {
			return at("decisions", i, err)
		}
	}
	for i, d := range x.GetDepartures() {
		if d.GetUid() == "" {
			return at("departures", i, wrong("uid", "expected a uid, got none"))
		}
		if d.GetTime() == nil {
			return at("departures", i, wrong("time", "expected a time, got none"))
		}
		if err := instant("time", d.GetTime()); err != nil {
			return at("departures", i, err)
		}
	}
	return nil
}

// podName checks "namespace/name".
func podName(field, s string) error {
	if err := name(field, s); err != nil {
		return err
	}
	i := strings.IndexByte(s, '/')
	if i <= 0 || i == len(s)-1 || strings.IndexByte(s[i+1:], '/') >= 0 {
		return wrong(field, "expected namespace/name, got %q", short(s))
	}
	return nil
}

// instant checks a time that may be absent.
func instant(field string, t *timestamppb.Timestamp) error {
	if t != nil && !t.IsValid() {
		return wrong(field, "expected a time from year 1 to 9999, got %d s %d ns", t.GetSeconds(), t.GetNanos())
	}
	return nil
}
