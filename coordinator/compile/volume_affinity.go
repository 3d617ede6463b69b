package compile

import (
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// volumeSelector translates the node affinity of a volume; nil where every node matches.
//
// Upstream shows the affinity a node's labels and nothing else, so a requirement on the
// node's name holds whatever it says.
func volumeSelector(a *v1.VolumeNodeAffinity) *pb.NodeSelector {
	if a == nil || a.Required == nil {
		return nil
	}
	return anyTerm(a.Required.NodeSelectorTerms, volumeTerm)
}

// volumeTerm translates one term.
func volumeTerm(t *v1.NodeSelectorTerm) (*pb.SelectorTerm, matching) {
	if isEmpty(t) {
		return nil, never
	}
	for i := range t.MatchFields {
		if _, is := fieldRequirement(&t.MatchFields[i]); is == malformed {
			return nil, malformed
		}
	}
	if len(t.MatchExpressions) == 0 {
		return nil, always
	}
	return selectorTerm(&v1.NodeSelectorTerm{MatchExpressions: t.MatchExpressions})
}

// topologySelector translates a storage class's allowedTopologies; nil: anywhere.
func topologySelector(terms []v1.TopologySelectorTerm) *pb.NodeSelector {
	if len(terms) == 0 {
		return nil
	}
	out := &pb.NodeSelector{}
	for i := range terms {
		if t := topologyTerm(terms[i].MatchLabelExpressions); t != nil {
			out.Terms = append(out.Terms, t)
		}
	}
	return out
}

// topologyTerm translates one term; nil: it matches no node.
func topologyTerm(list []v1.TopologySelectorLabelRequirement) *pb.SelectorTerm {
	if len(list) == 0 {
		return nil
	}
	out := &pb.SelectorTerm{}
	for i := range list {
		r := labelRequirement(&v1.NodeSelectorRequirement{Key: list[i].Key, Operator: v1.NodeSelectorOpIn, Values: list[i].Values})
		if r == nil {
			return nil
		}
		out.Labels = append(out.Labels, r)
	}
	return out
}

// segmentSelector translates the nodeTopology of a CSIStorageCapacity.
func segmentSelector(s *metav1.LabelSelector) (*pb.NodeSelector, matching) {
	if s == nil {
		return nil, never
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, malformed
	}
	list, selectable := parsed.Requirements()
	switch {
	case !selectable:
		return nil, never
	case len(list) == 0:
		return nil, always
	}
	term := &pb.SelectorTerm{}
	for i := range list {
		term.Labels = append(term.Labels, segmentRequirement(&list[i]))
	}
	return &pb.NodeSelector{Terms: []*pb.SelectorTerm{term}}, sometimes
}

// segmentRequirement translates a requirement of a label selector, which knows four
// operators.
func segmentRequirement(r *labels.Requirement) *pb.LabelRequirement {
	out := &pb.LabelRequirement{Key: r.Key()}
	switch r.Operator() {
	case selection.Exists:
		out.Operator = pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS
		return out
	case selection.DoesNotExist:
		out.Operator = pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST
		return out
	case selection.NotIn:
		out.Operator = pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN
	default: // a matchLabels entry is an equality
		out.Operator = pb.SelectorOperator_SELECTOR_OPERATOR_IN
	}
	out.Values = r.ValuesUnsorted()
	slices.Sort(out.Values)
	return out
}

// keptAffinities bounds the volumes whose affinity is kept translated, and keptSegments the capacities, which drivers
// replace all the time.
const keptAffinities, keptSegments = 1 << 17, 1 << 14

// affinities keeps volumes' node affinities translated: a storage class may have tens of
// thousands of volumes, and each pod that waits for one looks at them all.
type affinities struct {
	ofVolume map[*v1.PersistentVolume]*volumeAffinity
	byText   map[string]*volumeAffinity
	// segments are those of capacities, each of which keeps its pointer until it changes.
	segments map[*storagev1.CSIStorageCapacity]segment
	// round numbers the claims whose volumes are counted.
	round uint64
}

// segment is what segmentSelector finds.
type segment struct {
	selector *pb.NodeSelector
	is       matching
}

// volumeAffinity is the node affinity of volumes that can be reached from the same nodes.
type volumeAffinity struct {
	candidate *pb.CandidateVolume
	// listed counts the volumes that are candidates in a round.
	listed int
	round  uint64
}

func newAffinities() *affinities {
	return &affinities{
		ofVolume: map[*v1.PersistentVolume]*volumeAffinity{},
		byText:   map[string]*volumeAffinity{},
		segments: map[*storagev1.CSIStorageCapacity]segment{},
	}
}

// segment is the nodeTopology of a capacity.
func (k *affinities) segment(c *storagev1.CSIStorageCapacity) (*pb.NodeSelector, matching) {
	s, known := k.segments[c]
	if !known {
		if len(k.segments) >= keptSegments {
			clear(k.segments)
		}
		s.selector, s.is = segmentSelector(c.NodeTopology)
		k.segments[c] = s
	}
	return s.selector, s.is
}

// of is the affinity of a volume, which keeps its pointer until it changes.
func (k *affinities) of(pv *v1.PersistentVolume) *volumeAffinity {
	a := k.ofVolume[pv]
	if a == nil {
		if len(k.ofVolume) >= keptAffinities {
			clear(k.ofVolume)
			clear(k.byText)
		}
		a = k.intern(pv)
		k.ofVolume[pv] = a
	}
	return a
}

func (k *affinities) intern(pv *v1.PersistentVolume) *volumeAffinity {
	c := candidate(pv)
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err) // its texts are labels, which labels.NewRequirement has checked
	}
	a := k.byText[string(text)]
	if a == nil {
		a = &volumeAffinity{candidate: c}
		k.byText[string(text)] = a
	}
	return a
}

// candidate translates a volume's affinity, in the short form where there is one.
func candidate(pv *v1.PersistentVolume) *pb.CandidateVolume {
	s := volumeSelector(pv.Spec.NodeAffinity)
	if s != nil && len(s.Terms) == 1 && len(s.Terms[0].Labels) == 1 {
		r := s.Terms[0].Labels[0]
		if r.Operator == pb.SelectorOperator_SELECTOR_OPERATOR_IN && len(r.Values) == 1 {
			return &pb.CandidateVolume{Key: r.Key, Value: r.Values[0]}
		}
	}
	return &pb.CandidateVolume{NodeAffinity: s}
}

// list counts a volume of the affinity in the present round, and tells how many there
// were before.
func (k *affinities) list(a *volumeAffinity) int {
	if a.round != k.round {
		a.round, a.listed = k.round, 0
	}
	a.listed++
	return a.listed - 1
}
