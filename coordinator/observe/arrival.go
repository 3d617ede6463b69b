package observe

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// mostOfName is how much of somebody else's text is told as a name.
const mostOfName = 512

// tellArrival tells how a pod came to its node where no decision for that node is remembered: an earlier leader's memory is gone.
func (x *Explainer) tellArrival(out *pb.ExplainResponse, pod *v1.Pod) {
	if out.Node == "" || out.Decision.GetNode() == out.Node {
		return
	}
	out.Arrival = &pb.Arrival{LeadingSince: instant(x.Since), LeaderBefore: x.Before}
	TellArrival(out.Arrival, pod)
}

// TellArrival writes what a pod's object tells of how it came to its node.
func TellArrival(out *pb.Arrival, pod *v1.Pod) {
	at, by := objects.Arrival(pod)
	if !at.IsZero() {
		out.Time = timestamppb.New(at.Time)
	}
	out.DecidedBy = nameOf(by)
}

// noteRemade tells of a pending pod that was made in the place of one that was preempted.
func (x *Explainer) noteRemade(out *pb.ExplainResponse, pod *v1.Pod) {
	by := pod.Annotations[objects.PreemptedBy]
	if by == "" || out.Node != "" {
		return
	}
	why := "preempted by pod " + nameOf(by)
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if d := x.History.departure(name, x.Now()); d != nil && types.UID(d.Uid) != pod.UID && d.Why != "" {
		why = d.Why
	}
	Note(out, "it was made again in place of the pod of its name that was "+why)
}

// nameOf is somebody else's text as an answer may carry it.
func nameOf(text string) string { return strings.ToValidUTF8(text[:min(len(text), mostOfName)], "?") }
