package cli

import (
	"cmp"
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
	listing
	watch bool
	every time.Duration // of what is asked for again and again
	now   func() time.Time
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
	o := getOptions{now: time.Now, every: watchEvery}
	c := &cobra.Command{
		Use:        "get (KIND [NAME…] | KIND/NAME…)",
		GroupID:    groupClient,
		SuggestFor: []string{"list", "ls"},
		Short:      "Show nodes, pods and other objects, devices, workers or shards",
		Long: `Show objects, devices, workers, shards, plugins or the configuration. The kinds are
` + kindList() + `Devices are shown by node, with the resource claims that have them; names behind
them are those of nodes. Plugins are shown by profile with the time that they take
and the nodes that they let through, the configuration in what differs from the
defaults; -o json has all of it.

A kind may be given as one (pod) or in kubectl's short form (no, po, ns, svc, rc,
rs, sts, pv, pvc, sc), and with a name behind it: pod/NAME, or pod/NAMESPACE/NAME
as apply prints it. Any field can be selected by, not only those that an API server
knows. A pod on a node is shown as Bound, but its phase stays Pending, for no kubelet
starts it: --field-selector spec.nodeName= selects the pods that wait.

PodGroups are shown as the scheduler sees them, each with why it waits, also where an
API server keeps them; -o yaml and the like show the objects.

Objects come in pages of 500, and are printed as they come unless sorted.`,
		Example: `  shardsched get pods -A -o wide
  shardsched get nodes -w
  shardsched get pod web-1 -n shop -o yaml
  shardsched get pods -A -l app=web --field-selector spec.nodeName= --no-headers
  shardsched get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName --sort-by .spec.priority
  shardsched get pvc -n shop
  shardsched get devices n1
  shardsched get podgroups -A
  shardsched get workers
  shardsched get plugins`,
		ValidArgsFunction: completeObjects(s, &o.connection, &o.scope,
			append(plurals(), "devices", "workers", "shards", "plugins", "configuration")),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name what to get: nodes, pods, services … (see --help), devices, workers or shards")
			}
			args, err := o.target(args)
			if err != nil {
				return err
			}
			if err := o.validate(args[0], args[1:]); err != nil {
				return err
			}
			err = o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, args[0], args[1:])
			})
			return o.instead(err, "get", args)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pods, claims, services …")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "objects of all namespaces")
	o.listing.addFlags(fs)
	fs.BoolVarP(&o.watch, "watch", "w", false, "after the answer, go on with what changes; what is no object is asked for every 2s")
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
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

func (o *getOptions) validate(word string, names []string) error {
	if err := o.listing.parse(); err != nil {
		return err
	}
	if len(names) > 0 && o.selects() {
		return usagef("give either names or selectors, not both")
	}
	kind, ok := kindOf(word)
	switch {
	case ok && kind == kindPodGroup && o.tellsPodGroups(): // by the fields of what the scheduler tells
		return nil
	case ok:
		return o.checkFields(objects.New(objects.Kind(kind)))
	}
	switch word {
	case "device", "devices", "worker", "workers", "shard", "shards", "plugin", "plugins":
	case "configuration":
		if len(names) > 0 {
			return usagef("there is one configuration: name nothing behind it")
		}
	default:
		return unknownKind(word)
	}
	return nil
}

func (o *getOptions) run(ctx context.Context, s Streams, cl *client.Client, word string, names []string) error {
	kind, ok := kindOf(word)
	switch {
	case explained(word) == kindPodGroup && o.tellsPodGroups():
		return o.podGroups(ctx, s, cl, names)
	case ok:
		return o.objects(ctx, s, cl, kind, names)
	case strings.HasPrefix(word, "device"):
		return o.devices(ctx, s, cl, names)
	case strings.HasPrefix(word, "worker"):
		return o.workers(ctx, s, cl, names)
	case strings.HasPrefix(word, "plugin"):
		return o.plugins(ctx, s, cl, names)
	case word == "configuration":
		return o.configuration(ctx, s, cl)
	default:
		return o.shards(ctx, s, cl, names)
	}
}

func (o *getOptions) objects(ctx context.Context, s Streams, cl *client.Client, kind string, names []string) error {
	p := &objectPrinter{out: s.Out, kind: kind, listing: &o.listing, namespaces: o.all, now: o.now}
	if p.streams() && len(names) == 0 {
		return o.pages(ctx, s, cl, p)
	}
	found, revision, err := o.list(ctx, cl, kind, names)
	if err != nil {
		return err
	}
	if o.watch {
		if err := p.each(found...); err != nil {
			return err
		}
		return o.follow(ctx, cl, p, names, revision)
	}
	if len(found) == 0 && o.isTable() {
		sayNone(s, o.scope, kind)
		return nil
	}
	return p.list(found, len(names) == 1)
}

// pages prints objects as they come.
func (o *getOptions) pages(ctx context.Context, s Streams, cl *client.Client, p *objectPrinter) error {
	printed := 0
	revision, err := cl.Pages(ctx, p.kind, o.of(p.kind), "", func(page []runtime.Object) error {
		kept, err := choose(&o.listing, page, labelsOf)
		if err != nil {
			return err
		}
		printed += len(kept)
		return p.each(kept...)
	})
	switch {
	case err != nil:
		return err
	case o.watch:
		return o.follow(ctx, cl, p, nil, revision)
	case printed == 0 && o.isTable():
		sayNone(s, o.scope, p.kind)
	}
	return nil
}

// sayNone says that nothing was found.
func sayNone(s Streams, where scope, kind string) {
	fmt.Fprintf(s.Err, "No %s found%s.\n", objects.Kind(kind).Plural(), where.where(kind))
}

func (x scope) where(kind string) string {
	if ns := x.of(kind); ns != "" {
		return " in namespace " + ns
	}
	return ""
}

// instead has an error of a coordinator that keeps no objects say what to type.
func (x scope) instead(err error, verb string, args []string) error {
	if !client.NotKept(err) {
		return err
	}
	kind, _ := kindOf(args[0])
	words := append([]string{"kubectl", verb, objects.Kind(kind).Plural()}, args[1:]...)
	switch {
	case !objects.Kind(kind).Namespaced():
	case x.all:
		words = append(words, "-A")
	default:
		words = append(words, "-n", x.namespace)
	}
	return fmt.Errorf("%s are the API server's, and this coordinator keeps none: %s", objects.Kind(kind).Plural(), strings.Join(words, " "))
}

// list reads all of a kind, or those named, each of which must be there.
func (o *getOptions) list(ctx context.Context, cl *client.Client, kind string, names []string) ([]runtime.Object, uint64, error) {
	if len(names) == 0 {
		found, revision, err := cl.List(ctx, kind, o.of(kind), "")
		if err == nil {
			found, err = choose(&o.listing, found, labelsOf)
		}
		return found, revision, err
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
	return all, first, sortBy(&o.listing, all)
}

// follow prints changes until ctx ends. Where etcd has compacted the past away it
// starts again from a new list.
func (o *getOptions) follow(ctx context.Context, cl *client.Client, p *objectPrinter, names []string, revision uint64) error {
	for {
		err := cl.Watch(ctx, p.kind, o.of(p.kind), revision, func(t pb.WatchEventType, obj runtime.Object) error {
			if len(names) > 0 && !slices.Contains(names, obj.(metav1.Object).GetName()) {
				return nil
			}
			keep, err := o.keeps(obj, labelsOf(obj))
			if err != nil || !keep && !p.shows(obj) {
				return err
			}
			if !keep { // it is not among those any more that are asked for
				t = pb.WatchEventType_WATCH_EVENT_TYPE_DELETED
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

// workers shows those of the ids; of none, all.
func (o *getOptions) workers(ctx context.Context, s Streams, cl *client.Client, ids []string) error {
	v := &view[*pb.WorkerStatus]{
		name:    func(w *pb.WorkerStatus) string { return "worker/" + w.GetId() },
		headers: []string{"ID", "ADDRESS", "CORES", "SHARDS", "REQUESTS", "FAILURES", "BUSY"},
		row: func(w *pb.WorkerStatus) []string {
			row := []string{w.GetId(), w.GetAddress(), fmt.Sprint(w.GetCores()), fmt.Sprint(w.GetShards()),
				fmt.Sprint(w.GetRequests()), fmt.Sprint(w.GetFailures()), w.GetBusy().AsDuration().Round(time.Millisecond).String()}
			if o.form == "wide" {
				row = append(row, fmt.Sprint(w.GetClasses()), fmt.Sprint(w.GetRows()), fmt.Sprint(w.GetSnapshots()), w.GetVersion(),
					quarantine(w))
			}
			return row
		},
		empty: "No workers: the coordinator evaluates by itself.",
	}
	if o.form == "wide" {
		v.headers = append(v.headers, "CLASSES", "ROWS", "SNAPSHOTS", "VERSION", "QUARANTINE")
	}
	if len(ids) > 0 || o.selects() {
		v.empty = "No workers found."
	}
	return display(ctx, o, s, v, func() (any, []*pb.WorkerStatus, error) {
		var answer *pb.ListWorkersResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.ListWorkers(ctx, &pb.ListWorkersRequest{})
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list workers: %w", err)
		}
		if len(ids) > 0 {
			answer.Workers = slices.DeleteFunc(answer.GetWorkers(), func(w *pb.WorkerStatus) bool { return !slices.Contains(ids, w.GetId()) })
		}
		answer.Workers, err = choose(&o.listing, answer.GetWorkers(), nil)
		return answer, answer.GetWorkers(), err
	})
}

// shards shows those of the numbers; of none, all.
func (o *getOptions) shards(ctx context.Context, s Streams, cl *client.Client, numbers []string) error {
	v := &view[*pb.ShardStatus]{
		name:    func(x *pb.ShardStatus) string { return fmt.Sprint("shard/", x.GetShard()) },
		headers: []string{"SHARD", "NODES", "GENERATION", "WORKERS"},
		row: func(x *pb.ShardStatus) []string {
			return []string{fmt.Sprint(x.GetShard()), fmt.Sprint(x.GetNodes()), fmt.Sprint(x.GetGeneration()),
				cmp.Or(strings.Join(x.GetWorkers(), ","), "(coordinator)")}
		},
		empty: "No shards found.",
	}
	return display(ctx, o, s, v, func() (any, []*pb.ShardStatus, error) {
		var answer *pb.ListShardsResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.ListShards(ctx, &pb.ListShardsRequest{})
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list shards: %w", err)
		}
		if len(numbers) > 0 {
			answer.Shards = slices.DeleteFunc(answer.GetShards(),
				func(x *pb.ShardStatus) bool { return !slices.Contains(numbers, fmt.Sprint(x.GetShard())) })
		}
		answer.Shards, err = choose(&o.listing, answer.GetShards(), nil)
		return answer, answer.GetShards(), err
	})
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
