package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/whatif"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// deleteChunk is how many objects one Delete names.
const deleteChunk = 2000

type deleteOptions struct {
	connection
	scope
	listing
	files          []string
	skipInvalid    bool
	ignoreNotFound bool
	everything     bool
}

func newDeleteCommand(s Streams) *cobra.Command {
	var o deleteOptions
	c := &cobra.Command{
		Use:        "delete (-f PATH… | KIND NAME… | KIND/NAME… | KIND (--all | -l LABELS))",
		GroupID:    groupClient,
		SuggestFor: []string{"rm"},
		Short:      "Delete nodes, pods and other objects, or what files stand for",
		Long: `Delete objects. With a pod go the claims of its ephemeral volumes; the claims of a
StatefulSet stay, as in Kubernetes, unless its retention policy says otherwise. With a
ReplicaSet, a StatefulSet or a ReplicationController go its pods.`,
		Example: `  shardsched delete -f chart/
  shardsched delete pod web-1 web-2 -n shop
  shardsched delete pod/web-1
  shardsched delete pods -l app=web -n shop
  shardsched delete pods --all -n shop`,
		ValidArgsFunction: completeObjects(s, &o.connection, &o.scope, plurals()),
		RunE: func(c *cobra.Command, args []string) error {
			args, err := o.validate(args)
			if err != nil {
				return err
			}
			err = o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, args)
			})
			if len(o.files) > 0 {
				return filesInstead(err, "delete", o.files)
			}
			return o.instead(err, "delete", args)
		},
	}
	fs := c.Flags()
	addFileFlags(fs, &o.files, &o.skipInvalid, "objects to delete; workloads stand for themselves and their pods")
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pods, claims …, and of objects in files that name none")
	fs.BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "what is not there is no error")
	fs.BoolVar(&o.everything, "all", false, "all of the kind; of what lives in namespaces, those of the namespace")
	o.addSelectors(fs)
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
	return c
}

func (o *deleteOptions) validate(args []string) ([]string, error) {
	if err := o.listing.parse(); err != nil {
		return nil, err
	}
	if len(o.files) > 0 {
		if len(args) > 0 || o.everything || o.selects() {
			return nil, usagef("give either -f or a kind, not both")
		}
		return nil, nil
	}
	if len(args) == 0 {
		return nil, usagef("give -f, or a kind and names")
	}
	args, err := o.target(args)
	if err != nil {
		return nil, err
	}
	kind, ok := kindOf(args[0])
	if !ok {
		return nil, unknownKind(args[0])
	}
	ways := 0
	for _, way := range []bool{o.everything, o.selects(), len(args) > 1} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return nil, usagef("give either names, --all or selectors")
	}
	return args, o.checkFields(objects.New(objects.Kind(kind)))
}

func (o *deleteOptions) run(ctx context.Context, s Streams, cl *client.Client, args []string) error {
	refs, missing, err := o.refs(ctx, s, cl, args)
	if err != nil {
		return err
	}
	err = deleteAll(ctx, cl, refs, func(ref *pb.ObjectRef, was bool) {
		if was {
			fmt.Fprintf(s.Out, "%s deleted\n", refString(ref))
		} else {
			missing = append(missing, refString(ref))
		}
	})
	if err != nil {
		return err
	}
	if len(missing) == 0 || o.ignoreNotFound {
		return nil
	}
	const shown = 10
	text := fmt.Sprintf("%s was not there", missing[0])
	if len(missing) > 1 {
		text = fmt.Sprintf("%d objects were not there: %v", len(missing), missing[:min(shown, len(missing))])
	}
	return fmt.Errorf("%s", text)
}

// deleteAll deletes objects, and tells of each whether it was there.
func deleteAll(ctx context.Context, cl *client.Client, refs []*pb.ObjectRef, tell func(ref *pb.ObjectRef, was bool)) error {
	deleted := 0
	for chunk := range slices.Chunk(refs, deleteChunk) {
		var answer *pb.DeleteResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.Delete(ctx, &pb.DeleteRequest{Refs: chunk})
			return err
		})
		if err != nil {
			return fmt.Errorf("delete: %d of %d objects were deleted before: %w", deleted, len(refs), err)
		}
		for i, was := range answer.GetDeleted() {
			if was {
				deleted++
			}
			tell(chunk[i], was)
		}
	}
	return nil
}

// refs are what to delete, and workloads of files that have left nothing: pods first, then nodes, then the rest, namespaces last.
func (o *deleteOptions) refs(ctx context.Context, s Streams, cl *client.Client, args []string) (refs []*pb.ObjectRef, missing []string,
	err error) {
	if len(o.files) > 0 {
		return o.fileRefs(ctx, s, cl)
	}
	kind, _ := kindOf(args[0])
	names := args[1:]
	if len(names) == 0 {
		found, _, err := cl.List(ctx, kind, o.of(kind), "")
		if err == nil {
			found, err = choose(&o.listing, found, labelsOf)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, obj := range found {
			names = append(names, obj.(metav1.Object).GetName())
		}
		if len(names) == 0 {
			sayNone(s, o.scope, kind)
		}
	}
	refs, err = o.withPods(ctx, cl, kind, names)
	return refs, nil, err
}

// withPods are objects of a kind by their names, those that own pods behind these.
func (o *deleteOptions) withPods(ctx context.Context, cl *client.Client, kind string, names []string) (refs []*pb.ObjectRef, err error) {
	there := &owned{}
	if owner := objects.New(objects.Kind(kind)); len(names) > 0 && isWorkload(owner) {
		var owners []runtime.Object
		for _, name := range names {
			owner := objects.New(objects.Kind(kind))
			owner.SetNamespace(o.namespace)
			owner.SetName(name)
			owners = append(owners, owner)
		}
		if there, err = ownedBy(ctx, cl, owners); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		ref := objects.Ref{Kind: objects.Kind(kind), Namespace: o.of(kind), Name: name}
		for _, of := range there.refsOf(whatif.Key{Kind: kind, Namespace: o.namespace, Name: name}) {
			if of != ref {
				refs = append(refs, protoRef(of))
			}
		}
		refs = append(refs, protoRef(ref))
	}
	return refs, nil
}

// fileRefs are what files stand for: of a workload all that it made, by whatever template.
func (o *deleteOptions) fileRefs(ctx context.Context, s Streams, cl *client.Client) (refs []*pb.ObjectRef, missing []string, err error) {
	in, err := readInput(s, inputRequest{
		Paths: o.files, Namespace: o.namespace, SkipInvalid: o.skipInvalid, Apart: apartManifests,
		Nodes: func() ([]*v1.Node, error) { return cl.Nodes(ctx) },
		Kept:  func() ([]runtime.Object, error) { return keptFillIn(ctx, cl) },
	})
	if err != nil {
		return nil, nil, err
	}
	var others []objects.Ref
	if a := in.Asked; a != nil {
		in.Pods, in.Cluster = slices.Concat(in.Pods, a.Pods), slices.Concat(in.Cluster, a.Objects)
		there, err := ownedBy(ctx, cl, a.Workloads)
		if err != nil {
			return nil, nil, err
		}
		for _, w := range a.Workloads {
			key := whatif.KeyOf(w)
			all := there.refsOf(key)
			if len(all) == 0 {
				missing = append(missing, fmt.Sprintf("%s/%s/%s", strings.ToLower(key.Kind), key.Namespace, key.Name))
			}
			for _, ref := range all {
				if ref.Kind == objects.KindPod {
					refs = append(refs, protoRef(ref))
				} else {
					others = append(others, ref)
				}
			}
		}
	}
	for _, p := range in.Pods {
		refs = append(refs, protoRef(objects.RefOf(p)))
	}
	for _, n := range in.Nodes {
		refs = append(refs, protoRef(objects.RefOf(n)))
	}
	for _, ref := range others {
		refs = append(refs, protoRef(ref))
	}
	for _, obj := range slices.Backward(in.Cluster) {
		if ref := objects.RefOf(obj); !in.Retained[ref] {
			refs = append(refs, protoRef(ref))
		}
	}
	return refs, missing, nil
}
