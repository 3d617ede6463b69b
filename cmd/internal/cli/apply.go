package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// chunkBytes is how much of the objects one Apply carries: with the references it
// stays below the 4 MiB of a gRPC message.
const chunkBytes = 3 << 20

// chunkObjects keeps a chunk's answer quick.
const chunkObjects = 2000

type applyOptions struct {
	connection
	files       []string
	namespace   string
	skipInvalid bool
	noPrune     bool
	dryRun      bool
	quiet       bool
}

func newApplyCommand(s Streams) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use:        "apply -f PATH [-f PATH…]",
		GroupID:    groupClient,
		SuggestFor: []string{"create", "scale", "replace", "patch", "edit", "run"},
		Short:      "Create or update nodes, pods and workloads",
		Long: `Create or update objects: nodes, pods, and what the scheduler reads beside them
(see "shardsched get --help" for the kinds), Lists of them, and workloads, which
stand for the pods that their controllers would make, and the claims of those
(Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob,
ReplicationController). Other kinds are skipped. Everything is checked before
anything is sent; a line is printed for what etcd has committed.

A workload that was applied before owns its pods: fewer replicas delete pods, in the
order of Kubernetes' controllers, and another template replaces them, all at once. A
ReplicaSet, a ReplicationController and a Job leave the pods of an older template as
they are or refuse another one, as in Kubernetes. With --no-prune nothing is deleted.
What was read from a cluster (objects with a UID) is applied as it is.`,
		Example: `  shardsched apply -f nodes.yaml -f chart/
  helm template my-chart | shardsched apply -f -
  shardsched apply -f chart/ --dry-run`,
		Args: onlyFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.files) == 0 {
				return usagef("-f is required: what to apply")
			}
			err := o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error { return o.run(ctx, s, cl) })
			return filesInstead(err, "apply", o.files)
		},
	}
	fs := c.Flags()
	addFileFlags(fs, &o.files, &o.skipInvalid, "objects to apply")
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that name none")
	fs.BoolVar(&o.noPrune, "no-prune", false, "only add what workloads stand for, and delete nothing that they made before")
	fs.BoolVar(&o.dryRun, "dry-run", false, "check everything and tell what would be done, but do nothing")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print the count alone")
	o.connection.addFlags(fs)
	return c
}

// filesInstead has an error of a coordinator that keeps no objects say what to type.
func filesInstead(err error, verb string, files []string) error {
	if !client.NotKept(err) {
		return err
	}
	return fmt.Errorf("objects are the API server's, and this coordinator keeps none: kubectl %s -f %s", verb, strings.Join(files, " -f "))
}

func (o *applyOptions) run(ctx context.Context, s Streams, cl *client.Client) error {
	in, err := readInput(s, inputRequest{
		Paths: o.files, Namespace: o.namespace, SkipInvalid: o.skipInvalid, Apart: ownedUnless(o.noPrune),
		Nodes: func() ([]*v1.Node, error) { return cl.Nodes(ctx) },
		Kept:  func() ([]runtime.Object, error) { return keptFillIn(ctx, cl) },
	})
	if err != nil {
		return err
	}
	lines := s.Out
	if o.quiet {
		lines = io.Discard
	}
	a := &applier{client: cl, lines: lines, notes: s.Err, dryRun: o.dryRun}
	if err := a.apply(ctx, in); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, a.count())
	return err
}

// keptFillIn are the PriorityClasses, LimitRanges and RuntimeClasses that a coordinator keeps. One of an older version does not know
// the kinds, and keeps none.
func keptFillIn(ctx context.Context, cl *client.Client) (all []runtime.Object, err error) {
	for _, kind := range objects.FillIn() {
		found, _, err := cl.List(ctx, string(kind), "", "")
		if client.Code(err) == codes.InvalidArgument {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// applier sends an input in chunks, pods last and nodes before them: who waits
// for a node, or for a volume, finds it there.
type applier struct {
	client *client.Client
	lines  io.Writer // a line for each object
	notes  io.Writer
	dryRun bool
	// committed counts outcomes, deleted what went.
	committed map[pb.ApplyOutcome]int
	deleted   int
	// last is the last pod that was sent; nil: none was.
	last *pb.ObjectRef
}

// apply sends everything, one chunk after the other. An error says what was
// committed before it.
func (a *applier) apply(ctx context.Context, in *Input) error {
	a.committed = map[pb.ApplyOutcome]int{}
	x := &changes{send: *in}
	if in.Asked != nil {
		var err error
		if x, err = in.changes(ctx, a.client); err != nil {
			return err
		}
	}
	for _, note := range x.notes {
		fmt.Fprintf(a.notes, "note: %s\n", note)
	}
	all, err := encodeAll(&x.send)
	if err != nil {
		return err
	}
	for sent := 0; sent < len(all); {
		n := chunk(all[sent:])
		if all[sent].GetRef().GetKind() == client.KindPod { // pods make room before others come
			if err := a.remove(ctx, x); err != nil {
				return err
			}
		}
		if err := a.send(ctx, all[sent:sent+n]); err != nil {
			return a.partial(err, all, sent, n)
		}
		sent += n
	}
	return a.remove(ctx, x)
}

// remove deletes what goes, once, and tells of what stays.
func (a *applier) remove(ctx context.Context, x *changes) error {
	var refs []*pb.ObjectRef
	for _, ref := range x.gone {
		refs = append(refs, protoRef(ref))
	}
	for _, ref := range x.kept {
		a.committed[pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED]++
		fmt.Fprintf(a.lines, "%s unchanged%s\n", refString(protoRef(ref)), a.suffix())
	}
	x.gone, x.kept = nil, nil
	if a.dryRun {
		for _, ref := range refs {
			fmt.Fprintf(a.lines, "%s deleted%s\n", refString(ref), a.suffix())
		}
		a.deleted += len(refs)
		return nil
	}
	return deleteAll(ctx, a.client, refs, func(ref *pb.ObjectRef, was bool) {
		if was {
			a.deleted++
			fmt.Fprintf(a.lines, "%s deleted\n", refString(ref))
		}
	})
}

func protoRef(ref objects.Ref) *pb.ObjectRef {
	return &pb.ObjectRef{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
}

// ownedUnless is how an input is read whose workloads own what they made before.
func ownedUnless(noPrune bool) apart {
	if noPrune {
		return apartNever
	}
	return apartManifests
}

func encodeAll(in *Input) ([]*pb.Object, error) {
	all := make([]*pb.Object, 0, len(in.Cluster)+len(in.Nodes)+len(in.Pods))
	add := func(obj objects.Object) error {
		raw, err := objects.Encode(obj)
		if err != nil {
			return err
		}
		ref := &pb.ObjectRef{Kind: string(objects.KindOf(obj)), Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if len(raw) > chunkBytes {
			return fmt.Errorf("%s: %d bytes are more than one object may have (%d)", refString(ref), len(raw), chunkBytes)
		}
		all = append(all, &pb.Object{Ref: ref, Raw: raw})
		return nil
	}
	for _, obj := range in.Cluster {
		if err := add(obj); err != nil {
			return nil, err
		}
	}
	for _, n := range in.Nodes {
		if err := add(n); err != nil {
			return nil, err
		}
	}
	for _, p := range in.Pods {
		if err := add(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// chunk is how many of the objects fit into one request: of one kind, so that the
// order between kinds holds whatever the server does within a request.
func chunk(objs []*pb.Object) int {
	const refBytes = 64
	size := 0
	for i, o := range objs {
		size += len(o.GetRaw()) + len(o.GetRef().GetName()) + len(o.GetRef().GetNamespace()) + refBytes
		if i > 0 && (size > chunkBytes || i == chunkObjects || o.GetRef().GetKind() != objs[0].GetRef().GetKind()) {
			return i
		}
	}
	return len(objs)
}

func (a *applier) send(ctx context.Context, objs []*pb.Object) error {
	var answer *pb.ApplyResponse
	err := a.client.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		answer, err = s.Apply(ctx, &pb.ApplyRequest{Objects: objs, DryRun: a.dryRun})
		return err
	})
	if err != nil {
		return err
	}
	if len(answer.GetOutcomes()) != len(objs) {
		return fmt.Errorf("the coordinator told of %d objects, want %d", len(answer.GetOutcomes()), len(objs))
	}
	for i, outcome := range answer.GetOutcomes() {
		a.committed[outcome]++
		fmt.Fprintf(a.lines, "%s %s%s\n", refString(objs[i].GetRef()), outcomeString(outcome), a.suffix())
	}
	if ref := objs[len(objs)-1].GetRef(); ref.GetKind() == client.KindPod {
		a.last = ref
	}
	return nil
}

func (a *applier) suffix() string {
	if a.dryRun {
		return " (dry run)"
	}
	return ""
}

// partial says how far it came: chunks are committed one by one, each whole or
// not at all.
func (a *applier) partial(err error, all []*pb.Object, sent, n int) error {
	unclear := client.MayBeTaken(err)
	if sent == 0 && !unclear {
		return fmt.Errorf("apply: nothing was committed: %w", err)
	}
	fate := "were not committed"
	if unclear {
		fate = "may or may not have been committed"
	}
	text := fmt.Sprintf("%d of %d objects are committed; %s to %s %s", sent, len(all),
		refString(all[sent].GetRef()), refString(all[sent+n-1].GetRef()), fate)
	if rest := len(all) - sent - n; rest > 0 {
		text += fmt.Sprintf("; the %d after them were not", rest)
	}
	return fmt.Errorf("apply: %s (apply again to go on): %w", text, err)
}

func (a *applier) count() string {
	deleted := ""
	if a.deleted > 0 {
		deleted = fmt.Sprintf(", %d deleted", a.deleted)
	}
	return fmt.Sprintf("%d created, %d configured, %d unchanged%s%s",
		a.committed[pb.ApplyOutcome_APPLY_OUTCOME_CREATED],
		a.committed[pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED],
		a.committed[pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED], deleted, a.suffix())
}

func outcomeString(o pb.ApplyOutcome) string {
	switch o {
	case pb.ApplyOutcome_APPLY_OUTCOME_CREATED:
		return "created"
	case pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED:
		return "configured"
	case pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED:
		return "unchanged"
	}
	return "applied"
}

// refString names an object as kubectl does, with its namespace: pod/ns/name.
func refString(r *pb.ObjectRef) string {
	kind := objects.Kind(r.GetKind()).Singular()
	if r.GetNamespace() != "" {
		return kind + "/" + r.GetNamespace() + "/" + r.GetName()
	}
	return kind + "/" + r.GetName()
}
