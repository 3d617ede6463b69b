package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// target turns KIND/NAME… and KIND/NAMESPACE/NAME… into a kind and names, and leaves a
// kind with names as it is: these may have the kind in front, too, as -o name prints them, or their namespace. The kind is in lower case
// after it.
func (x *scope) target(args []string) ([]string, error) {
	word, _, joined := strings.Cut(args[0], "/")
	out := []string{strings.ToLower(word)}
	from := 0
	if !joined {
		from = 1
	}
	namespace, plain := "", false
	for _, arg := range args[from:] {
		if from == 1 && !strings.Contains(arg, "/") {
			out, plain = append(out, arg), true
			continue
		}
		behind := ""
		if from == 1 {
			behind = out[0]
		}
		kind, of, name, err := x.joined(behind, arg)
		switch {
		case err != nil:
			return nil, err
		case namespace == "":
			namespace = of
		}
		if !sameKind(kind, out[0]) || of != namespace {
			return nil, usagef("%q and %q: name objects of one kind and namespace at a time", args[0], arg)
		}
		out = append(out, name)
	}
	if plain && namespace != "" && namespace != x.namespace {
		return nil, usagef("%q: name objects of one kind and namespace at a time", strings.Join(args, " "))
	}
	if namespace != "" {
		x.namespace = namespace
	}
	return out, nil
}

// sameKind tells whether what has one word in front is of the kind that another one names. Devices are named by their nodes.
func sameKind(a, b string) bool {
	x, known := kindOf(a)
	y, _ := kindOf(b)
	one := strings.TrimSuffix(b, "s")
	return known && (x == y || x == client.KindNode && one == "device") || !known && strings.TrimSuffix(a, "s") == one
}

// bareNodes are names of nodes without the kind in front that -o name prints: node/n1.
func bareNodes(names []string) []string {
	bare := make([]string, 0, len(names))
	for _, name := range names {
		if word, rest, joined := strings.Cut(name, "/"); joined && sameKind(strings.ToLower(word), "nodes") {
			name = rest
		}
		bare = append(bare, name)
	}
	return bare
}

// joined reads KIND/NAME, and of what lives in namespaces KIND/NAMESPACE/NAME; behind a kind (else empty) NAMESPACE/NAME, too.
func (x *scope) joined(behind, arg string) (kind, namespace, name string, err error) {
	parts := strings.Split(arg, "/")
	if k, _ := kindOf(behind); len(parts) == 2 && objects.Kind(k).Namespaced() && explained(parts[0]) == "" {
		if _, known := kindOf(parts[0]); !known {
			parts = append([]string{behind}, parts...)
		}
	}
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
		return usagef("deployments are kept as the replicasets that they stand for: get rs (by an API server as they are: kubectl get " +
			"deployments)")
	case "ds", "daemonset", "daemonsets", "job", "jobs", "cj", "cronjob", "cronjobs":
		return usagef("daemonsets, jobs and cronjobs are kept as the pods that they stand for: get pods (by an API server as they are: "+
			"kubectl get %s)", word)
	case "all":
		return usagef("name a kind: there is no \"all\"")
	}
	if strings.Contains(word, ",") {
		return usagef("%q: name one kind at a time", word)
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
	return usagef("%s takes no argument, and got %q: a flag with several values takes them joined by commas", c.CommandPath(), args[0])
}

// noArgs is for a command that has flags alone.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and got %q", c.CommandPath(), args[0])
	}
	return nil
}
