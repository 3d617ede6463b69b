package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/cmd/internal/client"
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
		Use:     "delete (-f PATH… | KIND NAME… | KIND/NAME… | KIND (--all | -l LABELS))",
		GroupID: groupClient,
		Short:   "Delete nodes, pods and other objects, or what files stand for",
		Long: `Delete objects. With a pod go the claims of its ephemeral volumes; the claims of a
StatefulSet stay, as in Kubernetes, unless its retention policy says otherwise.`,
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
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, args)
			})
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
	refs, err := o.refs(ctx, s, cl, args)
	if err != nil {
		return err
	}
	deleted, missing := 0, []string(nil)
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
			if !was {
				missing = append(missing, refString(chunk[i]))
				continue
			}
			deleted++
			fmt.Fprintf(s.Out, "%s deleted\n", refString(chunk[i]))
		}
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

// refs are what to delete: pods first, then nodes, then the rest, namespaces last.
func (o *deleteOptions) refs(ctx context.Context, s Streams, cl *client.Client, args []string) ([]*pb.ObjectRef, error) {
	if len(o.files) > 0 {
		return o.fileRefs(ctx, s, cl)
	}
	kind, _ := kindOf(args[0])
	namespace := o.of(kind)
	names := args[1:]
	if len(names) == 0 {
		found, _, err := cl.List(ctx, kind, namespace, "")
		if err == nil {
			found, err = choose(&o.listing, found, labelsOf)
		}
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			names = append(names, obj.(metav1.Object).GetName())
		}
	}
	var refs []*pb.ObjectRef
	for _, name := range names {
		refs = append(refs, &pb.ObjectRef{Kind: kind, Namespace: namespace, Name: name})
	}
	return refs, nil
}

func (o *deleteOptions) fileRefs(ctx context.Context, s Streams, cl *client.Client) ([]*pb.ObjectRef, error) {
	in, err := readInput(s, inputRequest{
		Paths: o.files, Namespace: o.namespace, SkipInvalid: o.skipInvalid,
		Nodes: func() ([]*v1.Node, error) { return cl.Nodes(ctx) },
	})
	if err != nil {
		return nil, err
	}
	var refs []*pb.ObjectRef
	for _, p := range in.Pods {
		refs = append(refs, &pb.ObjectRef{Kind: client.KindPod, Namespace: p.Namespace, Name: p.Name})
	}
	for _, n := range in.Nodes {
		refs = append(refs, &pb.ObjectRef{Kind: client.KindNode, Name: n.Name})
	}
	for _, obj := range slices.Backward(in.Cluster) {
		if ref := objects.RefOf(obj); !in.Retained[ref] {
			refs = append(refs, &pb.ObjectRef{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return refs, nil
}
