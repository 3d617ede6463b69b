package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type traceOptions struct {
	connection
	namespace string
	slow      time.Duration
	limit     uint32
	output    string
}

func newTraceCommand(s Streams) *cobra.Command {
	var o traceOptions
	c := &cobra.Command{
		Use:     "trace [POD | pod NAME]",
		GroupID: groupClient,
		Short:   "Show the leader's last traces of attempts to place pods, as trees",
		Long: `Show the last attempts whose traces the leader has kept, the newest first, each
stage with when it began, counted from the attempt's beginning, and how long it took.
The leader keeps traces in memory where it traces at all: with --tracing-local, or with
a collector. Attempts are kept that were slow, that failed, or that were sampled.`,
		Example: `  shardsched trace
  shardsched trace --slow 1s --limit 20
  shardsched trace shop/web-1`,
		Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 || len(args) == 1 && explained(args[0]) != client.KindPod {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return namesThere(c.Context(), s, &o.connection, scope{namespace: o.namespace}, client.KindPod, nil), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", o.output, "", "json", "yaml"); err != nil {
				return err
			}
			req := &pb.ListTracesRequest{Limit: o.limit}
			if o.slow < 0 {
				return usagef("--slow: %s is negative", o.slow)
			}
			if o.slow > 0 {
				req.Slow = durationpb.New(o.slow)
			}
			if len(args) > 0 {
				x, err := (&explainOptions{namespace: o.namespace}).subject(args)
				if err != nil {
					return err
				}
				if x.kind != client.KindPod {
					return usagef("%q is no pod: attempts to place pods are traced", strings.Join(args, " "))
				}
				req.Namespace, req.Name = x.namespace, x.name
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, req)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pod, where its name has none")
	fs.DurationVar(&o.slow, "slow", 0, "attempts that took as long, counted from when the pod was queued; 0: all")
	fs.Uint32Var(&o.limit, "limit", 5, "traces to show")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: json, yaml; empty: trees")
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
	return c
}

func (o *traceOptions) run(ctx context.Context, s Streams, cl *client.Client, req *pb.ListTracesRequest) error {
	var answer *pb.ListTracesResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.ListTraces(ctx, req)
		return err
	})
	if err != nil {
		return fmt.Errorf("list traces: %w", err)
	}
	if o.output != "" {
		return printMessage(s.Out, o.output, answer)
	}
	if len(answer.GetTraces()) == 0 {
		fmt.Fprintln(s.Err, cmp.Or(answer.GetNote(), "No such trace is kept."))
		return nil
	}
	return renderTraces(s.Out, answer.GetTraces())
}

func renderTraces(w io.Writer, list []*pb.Trace) error {
	b := &strings.Builder{}
	for i, t := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "trace %s at %s\n", t.GetId(), clockTime(t.GetSpans()[0].GetStart()))
		newSpanTree(t).render(b, t.GetSpans()[0], "", "", "")
	}
	_, err := io.WriteString(w, strings.Map(printableLines, b.String()))
	return err
}

// spanTree is the spans of a trace below each other. One whose parent is missing hangs below the root.
type spanTree struct {
	begin time.Time
	below map[string][]*pb.Span
}

func newSpanTree(t *pb.Trace) *spanTree {
	spans := t.GetSpans()
	x := &spanTree{begin: spans[0].GetStart().AsTime(), below: map[string][]*pb.Span{}}
	known := map[string]bool{}
	for _, s := range spans {
		known[s.GetId()] = true
	}
	for _, s := range spans[1:] {
		parent := s.GetParent()
		if !known[parent] || parent == s.GetId() {
			parent = spans[0].GetId()
		}
		x.below[parent] = append(x.below[parent], s)
	}
	for _, list := range x.below {
		slices.SortStableFunc(list, func(a, b *pb.Span) int { return a.GetStart().AsTime().Compare(b.GetStart().AsTime()) })
	}
	return x
}

// render writes a span behind first, and those below it behind rest. service is its parent's.
func (x *spanTree) render(b *strings.Builder, s *pb.Span, first, rest, service string) {
	name := s.GetName()
	if _, method, found := strings.Cut(name, "Service/"); found {
		name = "…/" + method
	}
	fmt.Fprintf(b, "%s%s  +%s %s", first, name, s.GetStart().AsTime().Sub(x.begin).Round(time.Microsecond),
		s.GetTook().AsDuration().Round(time.Microsecond))
	if s.GetService() != service {
		fmt.Fprintf(b, "  [%s]", s.GetService())
	}
	for _, a := range s.GetAttributes() {
		b.WriteString(" " + strings.TrimPrefix(a, "shardsched."))
	}
	if s.GetError() != "" {
		b.WriteString(" error: " + s.GetError())
	}
	b.WriteByte('\n')
	below := x.below[s.GetId()]
	delete(x.below, s.GetId()) // whatever a server says, this comes to an end
	for i, child := range below {
		if i == len(below)-1 {
			x.render(b, child, rest+"└─ ", rest+"   ", s.GetService())
		} else {
			x.render(b, child, rest+"├─ ", rest+"│  ", s.GetService())
		}
	}
}
