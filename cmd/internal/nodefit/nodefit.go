package nodefit

import (
	"fmt"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Most is of how many workloads with pending pods one is held against a node: each is an explanation.
const Most = 10

// Fit is what becomes of a workload's pending pods on a node.
type Fit struct {
	Workload string `json:"workload"`
	Pods     uint64 `json:"pods"`
	// Example is the pod that is held against the node, namespace/name.
	Example string `json:"example"`
	// RefusedBy is the plugin that refuses it there; empty: none does.
	RefusedBy string   `json:"refusedBy,omitempty"`
	Lacks     []string `json:"lacks,omitempty"`
	// Note tells that the pod could not be held against the node.
	Note string `json:"note,omitempty"`
}

// Candidates are the workloads of most pending pods, and how many others there are.
func Candidates(pending *pb.ListPendingResponse) (fits []Fit, left int) {
	at := map[string]int{}
	for _, g := range pending.GetGroups() {
		name := "(several)"
		if g.GetKind() != "" {
			name = fmt.Sprintf("%s %s/%s", g.GetKind(), g.GetNamespace(), g.GetName())
		}
		if i, known := at[name]; known {
			fits[i].Pods += g.GetPods()
			continue
		}
		at[name] = len(fits)
		fits = append(fits, Fit{Workload: name, Pods: g.GetPods(), Example: g.GetExample()})
	}
	left = max(len(fits)-Most, 0)
	return fits[:len(fits)-left], left
}

// Request has the example explained on a node.
func (x *Fit) Request(node string) *pb.ExplainRequest {
	namespace, name, _ := strings.Cut(x.Example, "/")
	return &pb.ExplainRequest{Namespace: namespace, Name: name, Top: 1, NodeNames: []string{node}}
}

// Take takes over what the explanation says.
func (x *Fit) Take(e *pb.ExplainResponse) {
	switch v := e.GetVerdicts(); {
	case len(v) == 0 && len(e.GetCauses()) > 0:
		c := e.GetCauses()[0]
		x.RefusedBy, x.Lacks = c.GetPlugin(), []string{c.GetCause()}
		if c.GetDetail() != "" {
			x.Lacks[0] += " (" + c.GetDetail() + ")"
		}
	case len(v) == 0:
		x.Note = "it was not judged: " + e.GetNote()
	case v[0].GetRefused() != nil:
		r := v[0].GetRefused()
		if x.RefusedBy, x.Lacks = r.GetPlugin(), r.GetShortfalls(); len(x.Lacks) == 0 {
			x.Lacks = r.GetReasons()
		}
	case v[0].GetScored() == nil:
		x.Note = v[0].GetNote()
	case len(e.GetNotAsked()) > 0:
		x.Note = "passes the built-in filters; not asked: " + strings.Join(e.GetNotAsked(), ", ")
	}
}

// Fits tells that nothing keeps the pod off the node.
func (x *Fit) Fits() bool { return x.RefusedBy == "" && x.Note == "" }

// Verdict is what becomes of the pod, in words.
func (x *Fit) Verdict() string {
	switch {
	case x.RefusedBy != "":
		return x.RefusedBy + ": " + strings.Join(x.Lacks, ", ")
	case x.Note != "":
		return x.Note
	}
	return "fits"
}
