package observe

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Note adds a remark to an explanation.
func Note(out *pb.ExplainResponse, text string) {
	if out.Note != "" {
		text = out.Note + "; " + text
	}
	out.Note = text
}

// Tell writes a pod's last decisions.
func (h *History) Tell(out *pb.ExplainResponse, uid types.UID) {
	out.History = h.Past(uid)
	if len(out.History) > 0 {
		out.Decision = out.History[0].Decision
	}
}

// Waiting begins the explanation of a pod in the queue that waits for so much.
func (h *History) Waiting(p *queue.Pod, w queue.Waits) *pb.ExplainResponse {
	out := &pb.ExplainResponse{Queue: p.Place().String(), Attempts: uint32(p.Attempts), Waits: waitsOf(w)}
	// Where the last decision was a refusal, it tells the message itself.
	if d := h.Last(p.Obj.UID); p.Gated != "" || d == nil || d.Node != "" {
		out.Note = p.Message
	}
	noteCost(out, p)
	return out
}

// waitsOf is the message of what a pod waits for; nil: nothing.
func waitsOf(w queue.Waits) *pb.Waits {
	out := &pb.Waits{BackoffUntil: instant(w.BackoffUntil), TriedAnyway: instant(w.TriedAnyway)}
	for _, p := range w.Plugins {
		out.Plugins = append(out.Plugins, &pb.PluginWaits{Plugin: p.Plugin, Events: p.Events})
	}
	if len(out.Plugins) == 0 && out.BackoffUntil == nil && out.TriedAnyway == nil {
		return nil
	}
	return out
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// noteCost tells of a pod that waits behind others for what it costs.
func noteCost(out *pb.ExplainResponse, p *queue.Pod) {
	switch {
	case p.Aside == 0:
	case p.Awaits == queue.ForDevices:
		Note(out, "it waits until devices are searched for on all nodes, a part of them at a time: its claims are hard to meet")
	case p.Awaits == queue.ForGangs:
		Note(out, "it waits until its pod group may be tried in more domains, or until pods may be looked for that leave for it: that takes "+
			"long, and others go first")
	default:
		Note(out, "it waits until the pods are counted that its terms and constraints are about, a part of them each turn")
	}
	if p.Cost > queue.Costly {
		Note(out, fmt.Sprintf("to prepare its last attempt took %s, more than %s: it is tried behind pods that take less, one such pod a "+
			"batch", p.Cost.Round(time.Millisecond), queue.Costly))
	}
}
