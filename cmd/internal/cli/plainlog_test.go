package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestPlainLog(t *testing.T) {
	var out strings.Builder
	log := logr.New(&plainLog{out: &lockedWriter{out: &out}, now: func() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) }})
	log = log.WithValues("term", 5).WithName("x")
	log.Info("Became leader", "id", "a", "after", "nobody")
	log.Info("Preempted", "victims", "shop/a", "leftOut", 0)
	log.Info("Preempted", "victims", "shop/b", "leftOut", 7)
	log.V(1).Info("Not told")
	log.Error(errors.New("it is gone\x1b[2J\nnow"), "Watch breaks")
	log.Info("Alone")
	log.Info("A call", "identity", "", "objects", 2)
	want := `15:04:05 Became leader: id a, after nobody
15:04:05 Preempted: victims shop/a
15:04:05 Preempted: victims shop/b, leftOut 7
15:04:05 Watch breaks: error it is gone [2J now
15:04:05 Alone
15:04:05 A call: objects 2
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Whoever logs by the context of `up` logs to its standard error.
func TestUpLogsPlainly(t *testing.T) {
	var out strings.Builder
	ctx := withPlainLog(context.Background(), &out)
	klog.FromContext(ctx).Info("Worker left", "worker", "w-1")
	if _, line, _ := strings.Cut(out.String(), " "); line != "Worker left: worker w-1\n" {
		t.Errorf("got %q, want the time and a plain line", out.String())
	}
}

// A call that changes objects is told in a sentence, with names that say how many more there are.
func TestPlainLinesOfChanges(t *testing.T) {
	for want, values := range map[string][]any{
		"A client without a certificate at 127.0.0.1:5 applied 10 objects: Pod shop/a and 9 more": {
			"identity", "", "from", "127.0.0.1:5", "call", "/x/Apply", "objects", 10, "names", "Pod shop/a and 9 more", "outcome", "OK", "leftOut", 0},
		"alice at 127.0.0.1:5 deleted 1 object: Node n": {
			"identity", "alice", "from", "127.0.0.1:5", "call", "/x/Delete", "objects", 1, "names", "Node n", "outcome", "OK", "leftOut", 0},
		"alice at 127.0.0.1:5 asked to apply 2 objects, which has failed (InvalidArgument): Node a b. Lines left out before: 7": {
			"identity", "alice", "from", "127.0.0.1:5", "call", "/x/Apply", "objects", 2, "names", "Node a\nb", "outcome", "InvalidArgument", "leftOut", 7},
	} {
		var out strings.Builder
		log := logr.New(&plainLog{out: &lockedWriter{out: &out}, now: func() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) }})
		log.Info(serving.ChangeLogged, values...)
		if got := out.String(); got != "15:04:05 "+want+"\n" {
			t.Errorf("got  %swant %s", got, want)
		}
	}
}

// What others word reaches the terminal without control characters, nor as lines of their own.
func TestAnExplanationHasNoControlCharactersOfOthers(t *testing.T) {
	const evil = "\x1b[31mred\x07\u009b\nroot# "
	var b strings.Builder
	err := renderExplanation(&b, "shop/web-0", &pb.ExplainResponse{
		Decision: &pb.Decision{Message: evil}, Note: evil, Nodes: 1, NotAsked: []string{evil},
		PodGroup: &pb.PodGroupStatus{Namespace: "ml", Name: "train", Verdict: evil}, MemberState: evil,
		Causes: []*pb.Cause{{Cause: evil, Nodes: 1}}, Closest: []*pb.RefusedNode{{Node: "n", Devices: &pb.DeviceShortage{Note: evil}}},
	})
	got := b.String()
	if err != nil || strings.ContainsAny(got, "\x1b\x07\u009b") || strings.Count(got, "red") != 7 {
		t.Errorf("got %q, %v; want the text seven times, without control characters", got, err)
	}
	if strings.Contains(got, "\nroot#") {
		t.Errorf("got a line that others begin: %q", got)
	}
	for _, want := range []string{"Member of PodGroup ml/train: ", "\nThe PodGroup: ", "\nIts other members: shardsched explain podgroup ml/train\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}
