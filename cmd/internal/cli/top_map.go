package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/nodemap"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What `shardsched top` shows beside nodes and pods.
const (
	topZones     = "zones"
	topResources = "resources"
)

// mapFlags are the flags of `shardsched top zones`.
type mapFlags struct {
	by                          []string
	tell                        string
	resource, pod, plugin, size string
}

// mapColours are what --tell takes.
func mapColours() map[string]pb.NodeColour {
	return map[string]pb.NodeColour{
		"share": pb.NodeColour_NODE_COLOUR_UNSPECIFIED, "taints": pb.NodeColour_NODE_COLOUR_TAINTS, "shard": pb.NodeColour_NODE_COLOUR_SHARD,
		"score": pb.NodeColour_NODE_COLOUR_SCORE, "room": pb.NodeColour_NODE_COLOUR_ROOM,
	}
}

func (m *mapFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&m.by, "by", []string{v1.LabelTopologyZone}, "of zones: the `LABEL` of nodes that makes groups; two at the most")
	fs.StringVar(&m.tell, "tell", "share", "of zones: what to tell of nodes: share, taints, shard, score, room")
	fs.StringVar(&m.resource, "resource", "", "of zones: the resource whose requested share is told; empty: cpu")
	fs.StringVar(&m.pod, "pod", "", "of zones: the pod that score and room are of, `NAME` or NAMESPACE/NAME")
	fs.StringVar(&m.plugin, "plugin", "", "of zones: the plugin whose score is told; empty: the sum of all")
	fs.StringVar(&m.size, "size", "", "of zones: what the pods request that room is for, such as cpu=500m,memory=2Gi")
}

// given tells whether any is given that is no default.
func (m *mapFlags) given() bool {
	return m.tell != "share" || m.resource != "" || m.pod != "" || m.plugin != "" || m.size != "" ||
		!slices.Equal(m.by, []string{v1.LabelTopologyZone})
}

// request is what is asked of a coordinator.
func (m *mapFlags) request(namespace string) (*pb.GetNodeMapRequest, error) {
	colour, known := mapColours()[m.tell]
	if !known {
		return nil, oneOf("tell", m.tell, "share", "taints", "shard", "score", "room")
	}
	q := &pb.GetNodeMapRequest{GroupLabels: m.by, Colour: colour, Resource: m.resource, Plugin: m.plugin, Size: m.size, Name: m.pod}
	if of, name, joined := strings.Cut(m.pod, "/"); joined {
		q.Namespace, q.Name = of, name
	} else if m.pod != "" {
		q.Namespace = namespace
	}
	switch ofPod := m.tell == "score" || m.tell == "room"; {
	case m.tell == "score" && m.pod == "":
		return nil, usagef("--pod is required: scores are of a pod")
	case m.tell == "room" && (m.pod == "") == (m.size == ""):
		return nil, usagef("give --pod or --size: room is for pods like one, or of a size")
	case len(m.by) > 2:
		return nil, usagef("--by: want two labels at the most, got %d", len(m.by))
	case !ofPod && m.pod != "":
		return nil, usagef("--pod: score and room are of a pod: give --tell score or --tell room")
	}
	if err := q.Validate(); err != nil {
		return nil, usagef("--%w", err)
	}
	return q, nil
}

// showsMap tells whether a word is one that only a coordinator knows.
func showsMap(word string) bool {
	return slices.Contains([]string{topZones, "zone", topResources, "resource"}, word)
}

// runMap shows how full zones are, or how what is left of each resource is spread.
func (o *topOptions) runMap(ctx context.Context, s Streams, args []string) error {
	switch {
	case strings.HasPrefix(args[0], "resource") && o.mapFlags.given():
		return usagef("--by, --tell, --resource, --pod, --plugin and --size are about zones")
	case len(args) > 1:
		return usagef("%s are shown all: give no names", args[0])
	case o.selects():
		return usagef("%s are of all nodes: give no selectors", args[0])
	}
	return o.connection.with(ctx, s, func(ctx context.Context, cl *client.Client) error {
		if strings.HasPrefix(args[0], "zone") {
			return o.zones(ctx, s, cl)
		}
		return o.resources(ctx, s, cl)
	})
}

// zone is a group of nodes as a row, or as JSON.
type zone struct {
	nodemap.Group
	Unit string `json:"unit,omitempty"`
}

func (o *topOptions) zones(ctx context.Context, s Streams, cl *client.Client) error {
	q, err := o.request(o.namespace)
	if err != nil {
		return err
	}
	var m *pb.GetNodeMapResponse
	err = cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		m, err = c.GetNodeMap(ctx, q)
		return err
	})
	if err != nil {
		return fmt.Errorf("map nodes: %w", err)
	}
	groups, err := nodemap.Groups(m)
	if err != nil {
		return err
	}
	list := make([]zone, 0, len(groups))
	for _, g := range groups {
		list = append(list, zone{g, m.GetScale().GetUnit()})
	}
	if list, err = choose(&o.listing, list, nil); err != nil {
		return err
	}
	v := &view[zone]{
		name:  func(z zone) string { return "zone/" + strings.Join(z.Values, "/") },
		empty: "No nodes found.", headers: []string{"GROUP", "NODES", "LOWEST", "MEAN", "HIGHEST", "ELSE"}, row: zoneRow,
	}
	whole := struct {
		Items []zone `json:"items"`
		Room  uint64 `json:"room,omitempty"`
		Note  string `json:"note,omitempty"`
	}{list, m.GetRoom(), m.GetNote()}
	if err := things(&o.listing, s, whole, list, v); err != nil || !o.isTable() {
		return err
	}
	if o.tell == "room" {
		fmt.Fprintf(s.Out, "Room for %d pods by what they request; shardsched capacity counts all rules.\n", m.GetRoom())
	}
	if m.GetNote() != "" {
		fmt.Fprintln(s.Err, m.GetNote())
	}
	return nil
}

func zoneRow(z zone) []string {
	row := []string{nodemap.Name(z.Values), fmt.Sprint(z.Nodes), "-", "-", "-", "-"}
	if z.Scaled > 0 {
		for i, v := range []float64{z.Low, z.Mean, z.High} {
			row[2+i] = nodemap.Rounded(v) + " " + z.Unit
		}
	}
	var classes []string
	for _, c := range z.Classes {
		classes = append(classes, fmt.Sprintf("%d %s", c.Nodes, c.Text))
	}
	if len(classes) > 0 {
		row[5] = strings.Join(classes, "; ")
	}
	return row
}

func (o *topOptions) resources(ctx context.Context, s Streams, cl *client.Client) error {
	var f *pb.GetFragmentationResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		f, err = c.GetFragmentation(ctx, &pb.GetFragmentationRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("fragmentation: %w", err)
	}
	if f.Resources, err = choose(&o.listing, f.Resources, nil); err != nil {
		return err
	}
	v := &view[*pb.ResourceFragmentation]{
		name:  func(r *pb.ResourceFragmentation) string { return "resource/" + r.GetResource() },
		empty: "No nodes found.", row: resourceRow,
		headers: []string{"RESOURCE", "ALLOCATABLE", "REQUESTED", "CORDONED", "STRANDED", "ON NODES", "LARGEST", "ON NODE", "NODES BY TENTHS"},
	}
	if err := things(&o.listing, s, f, f.GetResources(), v); err != nil || !o.isTable() {
		return err
	}
	if f.GetLeftOut() > 0 {
		fmt.Fprintf(s.Err, "%d more resources are left out.\n", f.GetLeftOut())
	}
	return nil
}

func resourceRow(r *pb.ResourceFragmentation) []string {
	words := func(n int64) string { return amountText(r.GetResource(), n) }
	tenths := make([]string, 0, len(r.GetNodesByDecile()))
	for _, n := range r.GetNodesByDecile() {
		tenths = append(tenths, fmt.Sprint(n))
	}
	return []string{r.GetResource(), words(r.GetAllocatable()), words(r.GetRequested()), words(r.GetCordoned()), words(r.GetStranded()),
		fmt.Sprint(r.GetStrandedNodes()), words(r.GetLargest()), cmp.Or(r.GetLargestNode(), "<none>"), strings.Join(tenths, " ")}
}
