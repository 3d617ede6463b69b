package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// kindPodGroup is explained by a call of its own.
const kindPodGroup = "PodGroup"

// shownMembers is how many members of a pod group are told to people.
const shownMembers = 20

// runPodGroup tells why a pod group waits.
func (o *explainOptions) runPodGroup(ctx context.Context, s Streams, cl *client.Client, x subject) error {
	req := &pb.ExplainPodGroupRequest{Namespace: x.namespace, Name: x.name, Limit: podGroupPage}
	var all *pb.ExplainPodGroupResponse
	for {
		var page *pb.ExplainPodGroupResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			page, err = c.ExplainPodGroup(ctx, req)
			return err
		})
		if err != nil {
			return fmt.Errorf("explain %s: %w", x, err)
		}
		if all != nil {
			page.Members = append(all.GetMembers(), page.GetMembers()...)
		}
		if all = page; page.GetContinueToken() == "" || o.form == "" && len(all.GetMembers()) >= shownMembers {
			break
		}
		req.ContinueToken = page.GetContinueToken()
	}
	if done, err := o.whole(s.Out, all); done {
		return err
	}
	_, err := io.WriteString(s.Out, podGroupText(all))
	return err
}

// podGroupText is the answer for people.
func podGroupText(e *pb.ExplainPodGroupResponse) string {
	b, g := &strings.Builder{}, e.GetStatus()
	line := func(format string, args ...any) {
		b.WriteString(strings.Map(printable, fmt.Sprintf(format, args...)) + "\n")
	}
	line("PodGroup %s/%s is %s", g.GetNamespace(), g.GetName(), strings.ReplaceAll(g.GetState(), "_", " "))
	line("%s", g.GetVerdict())
	line("It asks for: %s", podGroupAsks(e))
	for _, note := range e.GetNotes() {
		line("Note: %s", note)
	}
	if len(g.GetReasons()) > 0 {
		b.WriteString("\nWhat excludes nodes from its members:\n")
		var rows [][]string
		for _, r := range g.GetReasons() {
			rows = append(rows, []string{fmt.Sprintf("  %d", r.GetNodes()), r.GetReason()})
		}
		newTable(b, "  NODES", "REASON").print(rows...)
	}
	if g.GetExist() > 0 {
		fmt.Fprintf(b, "\nMembers: %s\n", memberCounts(e))
		podGroupMembers(b, e)
	}
	return b.String()
}

// podGroupAsks is what a PodGroup asks for, in words.
func podGroupAsks(e *pb.ExplainPodGroupResponse) string {
	g := e.GetStatus()
	var asks []string
	switch g.GetPolicy() {
	case "Gang":
		asks = append(asks, fmt.Sprintf("at least %d members at once", g.GetMinCount()))
	case "Basic":
		asks = append(asks, "as many members as fit")
	default:
		return "nothing, for there is no PodGroup of that name"
	}
	if key := e.GetTopologyKey(); key != "" {
		asks = append(asks, "all of them in one domain of "+key)
	}
	if keys := e.GetPreferredTopology(); len(keys) > 0 {
		asks = append(asks, "if possible in one domain of "+strings.Join(keys, ", or else of "))
	}
	if n := e.GetSliceSize(); n > 0 {
		asks = append(asks, fmt.Sprintf("each %d of them in one domain of %s", n, e.GetSliceTopology()))
	}
	return strings.Join(asks, "; ")
}

// memberCounts is "8 do not fit, 8 held back by mates", but for what is none.
func memberCounts(e *pb.ExplainPodGroupResponse) string {
	var parts []string
	for _, c := range []struct {
		n    uint32
		what string
	}{{e.GetDoNotFit(), "do not fit"}, {e.GetNotTried(), "not tried"}, {e.GetHeldBack(), "held back by mates"}, {e.GetFit(), "fit"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

func podGroupMembers(b *strings.Builder, e *pb.ExplainPodGroupResponse) {
	list := e.GetMembers()[:min(len(e.GetMembers()), shownMembers)]
	var rows [][]string
	for _, m := range list {
		where := cmp.Or(m.GetNode(), m.GetQueue())
		if m.GetDomain() != "" {
			where += " (" + m.GetDomain() + ")"
		}
		if m.GetNominated() != "" {
			where += ", nominated to " + m.GetNominated()
		}
		rows = append(rows, []string{"  " + m.GetName(), m.GetState(), where, fmt.Sprint(m.GetAttempts()), m.GetMessage()})
	}
	newTable(b, "  POD", "STATE", "WHERE", "ATTEMPTS", "LAST ATTEMPT").print(rows...)
	if left := int(e.GetStatus().GetExist()) - len(list); left > 0 {
		fmt.Fprintf(b, "  … and %d more: -o json has all of them\n", left)
	}
}
