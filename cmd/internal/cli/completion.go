package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// completionPatience is how long somebody who presses the tabulator waits for an answer, where no --patience is on the line.
const completionPatience = time.Second

// completedNames is of how many objects names are offered at the most.
const completedNames = 500

// completeObjects offers kinds, then the names of what is there.
func completeObjects(s Streams, conn *connection, where *scope, kinds []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return namesThere(c.Context(), s, conn, *where, args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
		}
		if word, _, joined := strings.Cut(begun, "/"); joined {
			return behind(word, namesThere(c.Context(), s, conn, *where, word, nil)), cobra.ShellCompDirectiveNoFileComp
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp
	}
}

// behind puts names behind a word and a slash.
func behind(word string, names []string) []string {
	for i := range names {
		names[i] = word + "/" + names[i]
	}
	return names
}

// completeSubjects offers kinds that can be explained, then the names of what is there, of which one can be named: behind NAMESPACE/ those
// of that namespace, which are pods' where no kind is named before.
func completeSubjects(s Streams, conn *connection, namespace *string) cobra.CompletionFunc {
	kinds := []string{"pod", "node", "deployment", "replicaset", "statefulset", "daemonset", "job", "replicationcontroller"}
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if first, _, joined := strings.Cut(begun, "/"); joined && (len(args) == 1 || explained(first) == "") {
			word := append(args, client.KindPod)[0]
			return behind(first, namesThere(c.Context(), s, conn, scope{namespace: first}, word, nil)), cobra.ShellCompDirectiveNoFileComp
		}
		return completeObjects(s, conn, &scope{namespace: *namespace}, kinds)(c, args, begun)
	}
}

// completeNamespaces offers the namespaces that are there for --namespace.
func completeNamespaces(c *cobra.Command, s Streams, conn *connection) {
	completeFlag(c, "namespace", func(c *cobra.Command) []string {
		return namesThere(c.Context(), s, conn, scope{}, client.KindNamespace, nil)
	})
}

// completeNodes offers the nodes that are there for --node.
func completeNodes(c *cobra.Command, s Streams, conn *connection) {
	completeFlag(c, "node", func(c *cobra.Command) []string {
		return namesThere(c.Context(), s, conn, scope{}, client.KindNode, nil)
	})
}

// completeWords offers the words that a flag takes.
func completeWords(c *cobra.Command, flag string, words ...string) {
	completeFlag(c, flag, func(*cobra.Command) []string { return words })
}

func completeFlag(c *cobra.Command, flag string, words func(*cobra.Command) []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return words(c), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the command has no such flag
	}
}

// namesThere are those of the objects of a kind, but for those that are named already. Without an answer there are none: who types is
// not to be told in the middle of a line.
func namesThere(ctx context.Context, s Streams, conn *connection, where scope, word string, named []string) []string {
	kind := explained(word)
	if k, kept := kindOf(word); kept {
		kind = k
	}
	if kind == "" {
		return nil
	}
	patience := completionPatience
	if conn.flags.Changed("patience") {
		patience = conn.patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked, err := conn.asksAPIServer(s)
	if err != nil {
		return nil
	}
	var found []string
	if asked {
		found, err = apiServerNames(ctx, conn, kind, where)
	} else {
		err = conn.with(ctx, s, func(ctx context.Context, cl *client.Client) (err error) {
			if found, err = keptNames(ctx, cl, kind, where); client.NotKept(err) {
				found, err = pendingNamesOf(ctx, cl, kind, where)
			}
			return err
		})
	}
	if err != nil {
		return nil
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(name string) bool { return slices.Contains(named, name) })
}

// keptNames are the names that a coordinator keeps; workloads that it does not keep are found by their pods.
func keptNames(ctx context.Context, cl *client.Client, kind string, where scope) (found []string, err error) {
	if objects.Kind(kind).Known() {
		all, err := cl.Some(ctx, kind, where.of(kind), completedNames)
		for _, obj := range all {
			found = append(found, obj.(metav1.Object).GetName())
		}
		return found, err
	}
	all, err := cl.Some(ctx, client.KindPod, where.of(client.KindPod), completedNames)
	for _, obj := range all {
		if of, name := observe.WorkloadOf(obj.(*v1.Pod)); of == kind {
			found = append(found, name)
		}
	}
	return found, err
}

// pendingNamesOf are those that a coordinator can tell that keeps no objects: of what pends.
func pendingNamesOf(ctx context.Context, cl *client.Client, kind string, where scope) (found []string, err error) {
	var answer *pb.ListPendingResponse
	err = cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.ListPending(ctx, &pb.ListPendingRequest{Namespace: where.of(client.KindPod)})
		return err
	})
	for _, g := range answer.GetGroups() {
		namespace, pod, _ := strings.Cut(g.GetExample(), "/")
		switch kind {
		case client.KindPod:
			found = append(found, pod)
		case client.KindNamespace:
			found = append(found, namespace)
		case g.GetKind():
			found = append(found, g.GetName())
		}
	}
	return found, err
}

// apiServerNames asks an API server for the names of some objects of a kind.
func apiServerNames(ctx context.Context, conn *connection, kind string, where scope) (found []string, err error) {
	config, err := conn.kubernetes.rest()
	if err != nil {
		return nil, err
	}
	all := manifest.Kinds()
	i := slices.IndexFunc(all, func(k manifest.Kind) bool { return k.Kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("%s is of no API", kind)
	}
	c, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lister := metadata.ResourceInterface(c.Resource(all[i].GroupVersion().WithResource(all[i].Plural)))
	if all[i].Namespaced && !where.all {
		lister = c.Resource(all[i].GroupVersion().WithResource(all[i].Plural)).Namespace(where.namespace)
	}
	list, err := lister.List(ctx, metav1.ListOptions{Limit: completedNames})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	return found, nil
}
