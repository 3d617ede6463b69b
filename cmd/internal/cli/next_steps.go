package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardsched/shardsched/cmd/internal/summary"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nextSteps are what a run says when its pods are scheduled: what it came to, and what to type next.
type nextSteps struct {
	program string // what to type for shardsched
	address string // the flag that finds the coordinator, with a space before it; empty: it is found without
	again   string // flags that have the run go on serving, with a space before them

	sentence string
	example  string // a pod that is pending; empty: there is none
}

// next is what to type beside or after this run, whose clients are served on an address.
func (o UpOptions) next(s Streams, address string) nextSteps {
	n := nextSteps{program: cmp.Or(s.Program, "shardsched")}
	if address != defaultClientAPI {
		n.address = " --address " + address
	}
	if o.Demo {
		n.again += " --demo"
	}
	if o.Devices {
		n.again += " --devices"
	}
	for _, f := range o.Files {
		n.again += " -f " + f
	}
	if o.DataDir != "" {
		n.again = " --data-dir " + o.DataDir
	}
	return n
}

// placed notes what a run has come to.
func (n *nextSteps) placed(s *pb.Summary, took time.Duration) {
	all := s.GetPodsBound() + s.GetPodsPending()
	n.sentence = fmt.Sprintf("%s of %s pods placed in %s", summary.Count(s.GetPodsBound()), summary.Count(all),
		summary.Duration(took))
	if s.GetPodsPending() > 0 {
		n.sentence += fmt.Sprintf("; %s pending", summary.Count(s.GetPodsPending()))
	}
	n.sentence += "."
	if reasons := s.GetPendingReasons(); len(reasons) > 0 {
		n.example = strings.TrimPrefix(reasons[0].GetExample(), "default/")
	}
}

// meanwhile is for a run that goes on serving.
func (n *nextSteps) meanwhile(w io.Writer) {
	fmt.Fprintf(w, "%s In another window:\n", n.sentence)
	n.commands(w)
}

// afterwards is for a run that has ended.
func (n *nextSteps) afterwards(w io.Writer) {
	fmt.Fprintf(w, "\n%s To ask more, have it go on serving, and in another window ask:\n  %s up%s\n", n.sentence, n.program, n.again)
	n.commands(w)
}

func (n *nextSteps) commands(w io.Writer) {
	if n.example != "" {
		fmt.Fprintf(w, "  %s pending%s\n  %s explain%s pod %s\n", n.program, n.address, n.program, n.address, n.example)
	}
	fmt.Fprintf(w, "  %s top%s nodes\n  %s summary%s\n", n.program, n.address, n.program, n.address)
}
