package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// target turns KIND/NAME… and KIND/NAMESPACE/NAME… into a kind and names, and leaves a
// kind with names as it is: these may have the kind in front, too, as -o name prints them. The kind is in lower case after it.
func (x *scope) target(args []string) ([]string, error) {
	word, _, joined := strings.Cut(args[0], "/")
	out := []string{strings.ToLower(word)}
	from := 0
	if !joined {
		from = 1
	}
	namespace := ""
	for i, arg := range args[from:] {
		if from == 1 && !strings.Contains(arg, "/") {
			out = append(out, arg)
			continue
		}
		kind, of, name, err := x.joined(arg)
		switch {
		case err != nil:
			return nil, err
		case namespace == "":
			namespace = of
		}
		if !sameKind(kind, out[0]) || of != namespace || from == 1 && i > 0 && namespace != x.namespace {
			return nil, usagef("%q and %q: name objects of one kind and namespace at a time", args[0], arg)
		}
		out = append(out, name)
	}
	if namespace != "" {
		x.namespace = namespace
	}
	return out, nil
}

// sameKind tells whether two words name one kind.
func sameKind(a, b string) bool {
	x, known := kindOf(a)
	y, _ := kindOf(b)
	return a == b || known && x == y
}

// joined reads KIND/NAME, and of what lives in namespaces KIND/NAMESPACE/NAME.
func (x *scope) joined(arg string) (kind, namespace, name string, err error) {
	parts := strings.Split(arg, "/")
	kind, namespace, name = strings.ToLower(parts[0]), x.namespace, parts[len(parts)-1]
	if k, _ := kindOf(kind); len(parts) == 3 && objects.Kind(k).Namespaced() {
		namespace, parts = parts[1], parts[1:]
	}
	if len(parts) != 2 || name == "" || namespace == "" {
		return "", "", "", usagef("%q is not KIND/NAME, or pod/NAMESPACE/NAME", arg)
	}
	return kind, namespace, name, nil
}

// unknownKind says what a word that names no kind may have been meant for.
func unknownKind(word string) error {
	if isFile(word) {
		return usagef("%q is not a kind: did you mean -f %s?", word, word)
	}
	switch strings.ToLower(word) {
	case "deploy", "deployment", "deployments":
		return usagef("deployments are kept as the replicasets that they stand for: get rs")
	case "ds", "daemonset", "daemonsets", "job", "jobs", "cj", "cronjob", "cronjobs":
		return usagef("daemonsets, jobs and cronjobs are kept as the pods that they stand for: get pods")
	}
	return usagef("%q is not a kind that is kept (see --help), devices, workers or shards", word)
}

// isFile tells whether a word looks like a file of manifests, or is one.
func isFile(word string) bool {
	for _, end := range []string{".yaml", ".yml", ".json"} {
		if strings.HasSuffix(word, end) {
			return true
		}
	}
	_, err := os.Stat(word)
	return err == nil && strings.Contains(word, "/")
}

// onlyFiles is for a command that takes files with -f, and nothing else.
func onlyFiles(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case isFile(args[0]):
		return usagef("%s takes files with -f: did you mean -f %s?", c.Name(), args[0])
	}
	return cobra.NoArgs(c, args)
}

// completionPatience is how long somebody who presses the tabulator waits for a coordinator.
const completionPatience = time.Second

// completedNames is how many names are offered at the most.
const completedNames = 500

// completeObjects offers kinds, then the names of what is there.
func completeObjects(s Streams, conn *connection, where *scope, kinds []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return namesThere(c.Context(), s, conn, where, args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
		}
		if word, _, joined := strings.Cut(begun, "/"); joined {
			found := namesThere(c.Context(), s, conn, where, word, nil)
			for i := range found {
				found[i] = word + "/" + found[i]
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces offers the namespaces that are there for --namespace.
func completeNamespaces(c *cobra.Command, s Streams, conn *connection) {
	err := c.RegisterFlagCompletionFunc("namespace", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return namesThere(c.Context(), s, conn, &scope{all: true}, client.KindNamespace, nil), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the command has no such flag
	}
}

// namesThere are those of the objects of a kind, but for those that are named already; without an answer there are none.
func namesThere(ctx context.Context, s Streams, conn *connection, where *scope, word string, named []string) (found []string) {
	kind, ok := kindOf(strings.ToLower(word))
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	err := conn.with(ctx, s, func(ctx context.Context, cl *client.Client) error {
		all, err := cl.Some(ctx, kind, where.of(kind), completedNames)
		for _, obj := range all {
			if name := obj.(metav1.Object).GetName(); !slices.Contains(named, name) {
				found = append(found, name)
			}
		}
		return err
	})
	if err != nil {
		return nil // who types is not to be told in the middle of a line
	}
	return found
}
