package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// topOptions are the flags of `shardsched top`.
type topOptions struct {
	connection
	scope
	listing
	mapFlags
}

func newTopCommand(s Streams) *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:     "top (nodes | pods | zones | resources) [NAME…]",
		GroupID: groupClient,
		Short:   "Show what is requested on nodes, and by pods",
		Long: `Show what is requested on nodes, of what they have, and what pods request, the most
first. It is what is scheduled by: what is used nobody measures here. With --kubeconfig
or --context, and as kubectl's plugin, it asks the API server for nodes and pods, which
the user must be let list; else a coordinator that keeps them.

A coordinator alone knows zones and resources. Of zones, or groups of nodes by other
labels, it tells how full their nodes are, what keeps pods off them, or what becomes of
a pod there; of resources how what is left is spread over the nodes: how much of it is
on cordoned nodes, how much is stranded because another resource is used up, and the
most that one node has left.`,
		Example: `  shardsched top nodes
  shardsched top nodes --sort-by memory
  shardsched top pods -A -l app=web
  shardsched top nodes --kubeconfig view.conf
  shardsched top zones --by topology.kubernetes.io/zone,rack --resource memory
  shardsched top zones --tell score --pod shop/web-0
  shardsched top zones --tell room --size cpu=2,memory=8Gi
  shardsched top resources
  shardsched top pods --no-headers -o json`,
		ValidArgsFunction: completeObjects(s, &o.connection, &o.scope, []string{"nodes", "pods", topZones, topResources}),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name what to show: nodes, pods, zones or resources")
			}
			args, err := o.target(args)
			if err != nil {
				return err
			}
			if err := o.validate(args); err != nil {
				return err
			}
			if showsMap(args[0]) {
				return o.runMap(c.Context(), s, args)
			}
			return o.run(c.Context(), s, args)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pods")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "pods of all namespaces")
	o.listing.addFlags(fs)
	fs.Lookup("sort-by").Usage = "sort by a field of -o json, the most last; without it by CPU, the most first"
	o.mapFlags.addFlags(fs)
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
	return c
}

func (o *topOptions) validate(args []string) error {
	if err := o.listing.parse(); err != nil {
		return err
	}
	if o.form == "wide" {
		return usagef("--output: \"wide\" shows nothing more")
	}
	if len(args) > 1 && o.selects() {
		return usagef("give either names or selectors, not both")
	}
	if showsMap(args[0]) {
		return nil
	}
	if o.mapFlags.given() {
		return usagef("--by, --tell, --resource, --pod, --plugin and --size are about zones")
	}
	switch kind, _ := kindOf(args[0]); kind {
	case client.KindNode, client.KindPod:
		return nil
	}
	return usagef("%q has no requests: nodes and pods have", args[0])
}

// use is what is requested of a node, or by a pod.
type use struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Node is a pod's; empty: it has none.
	Node string `json:"node,omitempty"`
	// Requests are in Kubernetes' quantities. Allocatable, and the shares of it that are requested, are a node's.
	Requests      v1.ResourceList `json:"requests"`
	Allocatable   v1.ResourceList `json:"allocatable,omitempty"`
	CPUPercent    *int64          `json:"cpuPercent,omitempty"`
	MemoryPercent *int64          `json:"memoryPercent,omitempty"`

	labels labels.Set
}

// source gives what is requested of the nodes, or by the pods of a namespace (empty: all), with the names; of none, of all.
type source interface {
	nodes(ctx context.Context, names []string) ([]use, error)
	pods(ctx context.Context, namespace string, names []string) ([]use, error)
}

func (o *topOptions) askAPIServer(ctx context.Context, s Streams, kind string, names []string) error {
	config, err := o.connection.kubernetes.rest()
	if err != nil {
		return err
	}
	from, err := newAPIServerSource(config, o.selector)
	if err != nil {
		return err
	}
	return o.show(ctx, s, from, kind, names)
}

func (o *topOptions) run(ctx context.Context, s Streams, args []string) error {
	kind, _ := kindOf(args[0])
	if asked, err := o.connection.asksAPIServer(s); err != nil {
		return err
	} else if asked {
		return o.askAPIServer(ctx, s, kind, args[1:])
	}
	err := o.connection.with(ctx, s, func(ctx context.Context, cl *client.Client) error {
		return o.show(ctx, s, coordinatorSource{cl}, kind, args[1:])
	})
	switch {
	case client.NotKept(err) && s.Env("KUBECONFIG") != "":
		return o.askAPIServer(ctx, s, kind, args[1:])
	case client.NotKept(err):
		return fmt.Errorf("%s are the API server's, and this coordinator keeps none: name the API server with --kubeconfig or --context, "+
			"and it is asked", objects.Kind(kind).Plural())
	}
	return err
}

func (o *topOptions) show(ctx context.Context, s Streams, from source, kind string, names []string) error {
	var all []use
	var err error
	v := &view[use]{
		name:    func(u use) string { return objects.Kind(kind).Singular() + "/" + u.Name },
		headers: []string{"NAME", "CPU", "CPU%", "MEMORY", "MEMORY%", "PODS"}, row: nodeRow,
		empty: "No " + objects.Kind(kind).Plural() + " found.",
	}
	if kind == client.KindNode {
		all, err = from.nodes(ctx, names)
	} else {
		v.headers, v.row = []string{"NAME", "NODE", "CPU", "MEMORY", "OTHER REQUESTS"}, podRow
		if o.all {
			v.headers = append([]string{"NAMESPACE"}, v.headers...)
			v.row = func(u use) []string { return append([]string{u.Namespace}, podRow(u)...) }
		}
		all, err = from.pods(ctx, o.of(kind), names)
	}
	if err != nil {
		return err
	}
	if all, err = named(all, kind, names); err != nil {
		return err
	}
	if all, err = choose(&o.listing, all, func(u use) labels.Set { return u.labels }); err != nil {
		return err
	}
	if o.order == nil {
		sortByCPU(all)
	}
	return things(&o.listing, s, struct {
		Items []use `json:"items"`
	}{all}, all, v)
}

// coordinatorSource is a coordinator that keeps nodes and pods.
type coordinatorSource struct{ *client.Client }

func (c coordinatorSource) nodes(ctx context.Context, _ []string) ([]use, error) {
	pods, err := c.Pods(ctx, "")
	if err != nil {
		return nil, err
	}
	requested := requests{}
	for _, p := range pods {
		requested.add(p)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return requested.ofAll(nodes), nil
}

func (c coordinatorSource) pods(ctx context.Context, namespace string, _ []string) ([]use, error) {
	pods, err := c.Pods(ctx, namespace)
	return usesOfPods(pods), err
}

// usesOfPods are those of pods that have not ended.
func usesOfPods(pods []*v1.Pod) (all []use) {
	for _, p := range pods {
		if !objects.IsTerminal(p) {
			all = append(all, use{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Requests: compile.Requests(p), labels: p.Labels})
		}
	}
	return all
}

// requests are what pods request of their nodes, by node.
type requests map[string]v1.ResourceList

// add counts a pod, which takes one of the pods that its node can have, too.
func (r requests) add(p *v1.Pod) {
	if p.Spec.NodeName == "" || objects.IsTerminal(p) {
		return
	}
	sum := r[p.Spec.NodeName]
	if sum == nil {
		sum = v1.ResourceList{}
		r[p.Spec.NodeName] = sum
	}
	add(sum, compile.Requests(p))
	add(sum, v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)})
}

// ofAll is what is requested of each of some nodes.
func (r requests) ofAll(nodes []*v1.Node) []use {
	all := make([]use, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, r.of(n))
	}
	return all
}

// of is what is requested of a node.
func (r requests) of(n *v1.Node) use {
	u := use{Name: n.Name, Requests: v1.ResourceList{}, Allocatable: n.Status.Allocatable, labels: n.Labels}
	for name := range n.Status.Allocatable {
		u.Requests[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	add(u.Requests, r[n.Name])
	u.CPUPercent, u.MemoryPercent = percentOf(&u, v1.ResourceCPU), percentOf(&u, v1.ResourceMemory)
	return u
}

func add(sum, more v1.ResourceList) {
	for name, q := range more {
		if have, ok := sum[name]; ok && !have.IsZero() {
			have.Add(q)
			q = have
		}
		sum[name] = q
	}
}

// percentOf is the share of a node's resource that is requested; nil: it has none.
func percentOf(u *use, name v1.ResourceName) *int64 {
	has, q := u.Allocatable[name], u.Requests[name]
	if has.IsZero() {
		return nil
	}
	share := int64(100*q.AsApproximateFloat64()/has.AsApproximateFloat64() + 0.5)
	return &share
}

func sortByCPU(all []use) {
	slices.SortStableFunc(all, func(a, b use) int {
		m, n := a.Requests[v1.ResourceMemory], b.Requests[v1.ResourceMemory]
		x, y := a.Requests[v1.ResourceCPU], b.Requests[v1.ResourceCPU]
		return cmp.Or(y.Cmp(x), n.Cmp(m))
	})
}

// named are those of the names, each of which has to be there; all where none is named.
func named(all []use, kind string, names []string) ([]use, error) {
	if len(names) == 0 {
		return all, nil
	}
	var kept []use
	for _, name := range names {
		before := len(kept)
		for _, u := range all {
			if u.Name == name {
				kept = append(kept, u)
			}
		}
		if len(kept) == before {
			return nil, fmt.Errorf("no %s %q", objects.Kind(kind).Singular(), name)
		}
	}
	return kept, nil
}

func nodeRow(u use) []string {
	share := func(p *int64) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprintf("%d%%", *p)
	}
	pods := u.Requests[v1.ResourcePods]
	return []string{u.Name, amount(u.Requests, v1.ResourceCPU), share(u.CPUPercent), amount(u.Requests, v1.ResourceMemory),
		share(u.MemoryPercent), pods.String() + "/" + amount(u.Allocatable, v1.ResourcePods)}
}

func podRow(u use) []string {
	cpu, memory := amount(u.Requests, v1.ResourceCPU), amount(u.Requests, v1.ResourceMemory)
	return []string{u.Name, cmp.Or(u.Node, "<none>"), cpu, memory, others(u.Requests)}
}
