package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/plainjson"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type getOptions struct {
	connection
	scope
	output string
	watch  bool
	now    func() time.Time
}

// scope is the namespace that a command looks at.
type scope struct {
	namespace string
	all       bool
}

// of is the namespace to ask for; empty: all.
func (x scope) of(kind string) string {
	if x.all || !objects.Kind(kind).Namespaced() {
		return ""
	}
	return x.namespace
}

func newGetCommand(s Streams) *cobra.Command {
	o := getOptions{now: time.Now}
	c := &cobra.Command{
		Use:     "get (KIND [NAME…] | KIND/NAME…)",
		GroupID: groupClient,
		Short:   "Show nodes, pods and other objects, devices, workers or shards",
		Long: `Show objects, devices, workers or shards. The kinds are
` + kindList() + `Devices are shown by node, with the resource claims that have them; names behind
them are those of nodes.

A kind may be given as one (pod) or in kubectl's short form (no, po, ns, svc, rc,
rs, sts, pv, pvc, sc), and with a name behind it: pod/NAME, or pod/NAMESPACE/NAME
as apply prints it.`,
		Example: `  shardsched get pods -A -o wide
  shardsched get nodes -w
  shardsched get pod web-1 -n shop -o yaml
  shardsched get pvc -n shop
  shardsched get devices n1
  shardsched get workers`,
		ValidArgs: append(plurals(), "devices", "workers", "shards"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name what to get: nodes, pods, services … (see --help), devices, workers or shards")
			}
			args, err := o.target(args)
			if err != nil {
				return err
			}
			if err := o.validate(args[0]); err != nil {
				return err
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, args[0], args[1:])
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pods, claims, services …")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "objects of all namespaces")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: wide, json, yaml, name; empty: a table")
	fs.BoolVarP(&o.watch, "watch", "w", false, "after the answer, go on with what changes (not of devices, workers and shards)")
	o.connection.addFlags(fs)
	return c
}

// kindOf finds the kind that a word names.
func kindOf(word string) (string, bool) {
	kind, ok := objects.KindNamed(word)
	return string(kind), ok
}

// plurals are the words for all kinds that a coordinator keeps, those first that are asked
// for most.
func plurals() []string {
	words := []string{objects.KindNode.Plural(), objects.KindPod.Plural()}
	for _, k := range objects.Kinds() {
		if !slices.Contains(words, k.Plural()) {
			words = append(words, k.Plural())
		}
	}
	return words
}

// kindList is plurals for a text of 80 columns.
func kindList() string {
	var b strings.Builder
	width := 0
	for i, word := range plurals() {
		switch {
		case i == 0:
		case width+len(word)+2 > 78:
			b.WriteString(",\n")
			width = 0
		default:
			b.WriteString(", ")
			width += 2
		}
		b.WriteString(word)
		width += len(word)
	}
	b.WriteString(".\n")
	return b.String()
}

// target turns KIND/NAME… and KIND/NAMESPACE/NAME… into a kind and names, and leaves a
// kind with names as it is. The kind is in lower case after it.
func (o *getOptions) target(args []string) ([]string, error) {
	word, _, joined := strings.Cut(args[0], "/")
	out := []string{strings.ToLower(word)}
	if !joined {
		return append(out, args[1:]...), nil
	}
	first := ""
	for i, arg := range args {
		kind, namespace, name, err := o.joined(arg)
		switch {
		case err != nil:
			return nil, err
		case i == 0:
			first = namespace
		case kind != out[0] || namespace != first:
			return nil, usagef("%q and %q: name objects of one kind and namespace at a time", args[0], arg)
		}
		out = append(out, name)
	}
	o.namespace = first
	return out, nil
}

// joined reads KIND/NAME, and of what lives in namespaces KIND/NAMESPACE/NAME.
func (o *getOptions) joined(arg string) (kind, namespace, name string, err error) {
	parts := strings.Split(arg, "/")
	kind, namespace, name = strings.ToLower(parts[0]), o.namespace, parts[len(parts)-1]
	if k, _ := kindOf(kind); len(parts) == 3 && objects.Kind(k).Namespaced() {
		namespace, parts = parts[1], parts[1:]
	}
	if len(parts) != 2 || name == "" || namespace == "" {
		return "", "", "", usagef("%q is not KIND/NAME, or pod/NAMESPACE/NAME", arg)
	}
	return kind, namespace, name, nil
}

func (o *getOptions) validate(word string) error {
	if err := oneOf("output", o.output, "", "wide", "json", "yaml", "name"); err != nil {
		return err
	}
	if _, ok := kindOf(word); ok {
		return nil
	}
	switch word {
	case "device", "devices", "worker", "workers", "shard", "shards":
	default:
		return usagef("%q is not a kind that is kept (see --help), devices, workers or shards", word)
	}
	if o.watch || o.output == "name" {
		return usagef("%s: --watch and -o name are for objects", word)
	}
	return nil
}

func (o *getOptions) run(ctx context.Context, s Streams, cl *client.Client, word string, names []string) error {
	kind, ok := kindOf(word)
	switch {
	case ok:
		return o.objects(ctx, s, cl, kind, names)
	case strings.HasPrefix(word, "device"):
		return o.devices(ctx, s, cl, names)
	case strings.HasPrefix(word, "worker"):
		return o.workers(ctx, s, cl, names)
	default:
		return o.shards(ctx, s, cl, names)
	}
}

func (o *getOptions) objects(ctx context.Context, s Streams, cl *client.Client, kind string, names []string) error {
	found, revision, err := o.list(ctx, cl, kind, names)
	if err != nil {
		return err
	}
	p := &objectPrinter{out: s.Out, kind: kind, form: o.output, namespaces: o.all, now: o.now}
	if len(found) == 0 && !o.watch && (o.output == "" || o.output == "wide") {
		fmt.Fprintf(s.Err, "No %s found%s.\n", objects.Kind(kind).Plural(), o.where(kind))
		return nil
	}
	if !o.watch {
		return p.list(found, len(names) == 1)
	}
	if err := p.each(found...); err != nil {
		return err
	}
	return o.follow(ctx, cl, p, names, revision)
}

func (o *getOptions) where(kind string) string {
	if ns := o.of(kind); ns != "" {
		return " in namespace " + ns
	}
	return ""
}

// list reads all of a kind, or those named, each of which must be there.
func (o *getOptions) list(ctx context.Context, cl *client.Client, kind string, names []string) ([]runtime.Object, uint64, error) {
	if len(names) == 0 {
		return cl.List(ctx, kind, o.of(kind), "")
	}
	var all []runtime.Object
	var first uint64
	for i, name := range names {
		found, revision, err := cl.List(ctx, kind, o.of(kind), name)
		if err != nil {
			return nil, 0, err
		}
		if len(found) == 0 {
			return nil, 0, fmt.Errorf("no %s %q%s", strings.ToLower(kind), name, o.where(kind))
		}
		if i == 0 {
			first = revision
		}
		all = append(all, found...)
	}
	return all, first, nil
}

// follow prints changes until ctx ends. Where etcd has compacted the past away it
// starts again from a new list.
func (o *getOptions) follow(ctx context.Context, cl *client.Client, p *objectPrinter, names []string, revision uint64) error {
	for {
		err := cl.Watch(ctx, p.kind, o.of(p.kind), revision, func(t pb.WatchEventType, obj runtime.Object) error {
			if len(names) > 0 && !slices.Contains(names, obj.(metav1.Object).GetName()) {
				return nil
			}
			return p.event(t, obj)
		})
		if client.Code(err) != codes.OutOfRange {
			return err
		}
		found, now, err := o.list(ctx, cl, p.kind, nil)
		if err != nil {
			return err
		}
		if err := p.each(found...); err != nil {
			return err
		}
		revision = now
	}
}

func (o *getOptions) workers(ctx context.Context, s Streams, cl *client.Client, ids []string) error {
	var answer *pb.ListWorkersResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.ListWorkers(ctx, &pb.ListWorkersRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	if len(ids) > 0 {
		answer.Workers = slices.DeleteFunc(answer.GetWorkers(), func(w *pb.WorkerStatus) bool { return !slices.Contains(ids, w.GetId()) })
	}
	if o.output == "json" || o.output == "yaml" {
		return printMessage(s.Out, o.output, answer)
	}
	headers := []string{"ID", "ADDRESS", "CORES", "SHARDS", "REQUESTS", "FAILURES", "BUSY"}
	if o.output == "wide" {
		headers = append(headers, "CLASSES", "ROWS", "SNAPSHOTS", "VERSION", "QUARANTINE")
	}
	var rows [][]string
	for _, w := range answer.GetWorkers() {
		row := []string{w.GetId(), w.GetAddress(), fmt.Sprint(w.GetCores()), fmt.Sprint(w.GetShards()),
			fmt.Sprint(w.GetRequests()), fmt.Sprint(w.GetFailures()), w.GetBusy().AsDuration().Round(time.Millisecond).String()}
		if o.output == "wide" {
			row = append(row, fmt.Sprint(w.GetClasses()), fmt.Sprint(w.GetRows()), fmt.Sprint(w.GetSnapshots()), w.GetVersion(),
				quarantine(w))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		fmt.Fprintln(s.Err, "No workers: the coordinator evaluates by itself.")
		return nil
	}
	return newTable(s.Out, headers...).print(rows...)
}

func (o *getOptions) shards(ctx context.Context, s Streams, cl *client.Client, numbers []string) error {
	var answer *pb.ListShardsResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.ListShards(ctx, &pb.ListShardsRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("list shards: %w", err)
	}
	if len(numbers) > 0 {
		answer.Shards = slices.DeleteFunc(answer.GetShards(),
			func(x *pb.ShardStatus) bool { return !slices.Contains(numbers, fmt.Sprint(x.GetShard())) })
	}
	if o.output == "json" || o.output == "yaml" {
		return printMessage(s.Out, o.output, answer)
	}
	var rows [][]string
	for _, x := range answer.GetShards() {
		holders := strings.Join(x.GetWorkers(), ",")
		if holders == "" {
			holders = "(coordinator)"
		}
		rows = append(rows, []string{fmt.Sprint(x.GetShard()), fmt.Sprint(x.GetNodes()), fmt.Sprint(x.GetGeneration()), holders})
	}
	return newTable(s.Out, "SHARD", "NODES", "GENERATION", "WORKERS").print(rows...)
}

// printMessage writes a message as json or yaml.
func printMessage(w io.Writer, form string, m proto.Message) error {
	text, err := plainjson.Marshal(m)
	if err == nil && form == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// printObject writes anything that encodes as JSON as json or yaml.
func printObject(w io.Writer, form string, obj any) error {
	text, err := json.MarshalIndent(obj, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if form == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err = w.Write(text)
	return err
}

// quarantine says until when a worker is not asked, and why.
func quarantine(w *pb.WorkerStatus) string {
	if w.GetQuarantine() == "" {
		return "-"
	}
	if w.GetQuarantinedUntil() == nil {
		return w.GetQuarantine()
	}
	return "until " + w.GetQuarantinedUntil().AsTime().Format(time.RFC3339) + ": " + w.GetQuarantine()
}
