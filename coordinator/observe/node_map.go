package observe

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

const (
	// mappedAtOnce is how many nodes one step of a map looks at, of half a microsecond each.
	mappedAtOnce = 2048
	// mapSteps is the highest step of a scale, and firstClass the number of the first class.
	mapSteps, firstClass = 1000, 1 << 15
	// maxMapClasses is how many classes a map has, and maxMapGroups how many groups: taints and labels may be any node's own. The last of
	// them are the others together.
	maxMapClasses, maxMapGroups = 256, 2048
	// maxMapLabels is how many labels make groups.
	maxMapLabels = 2
)

// otherClasses and notJudged are texts of classes.
const (
	otherClasses = "others"
	notJudged    = "the pod is not judged"
)

// Tables are the nodes as rows, with their objects.
type Tables interface {
	NumShards() int
	Table(i int) *scorer.Table
	Node(name string) *v1.Node
}

// NodeMap is a map of all nodes on its way. The loop looks at each node once; the map is sorted and made without the loop.
type NodeMap struct {
	req     *pb.GetNodeMapRequest
	tables  Tables
	labels  []string
	size    *pb.Resources // of NODE_COLOUR_ROOM by a size; nil: there is none
	cells   nodeCells
	walk    walk[cache.Row]
	explain *Explanation // of a pod; nil: none is asked for
	// explained tells that the pod's explanation has taken its last step.
	explained bool
}

// NewNodeMap makes a map that is to be read. The error is that of a request that can't be answered.
func NewNodeMap(req *pb.GetNodeMapRequest, t Tables) (*NodeMap, error) {
	x := &NodeMap{req: req, tables: t, labels: req.GetGroupLabels()}
	if len(x.labels) == 0 {
		x.labels = []string{v1.LabelTopologyZone}
	}
	x.cells = nodeCells{x: x, groups: map[groupValues]int32{}, classes: map[string]int32{}}
	switch colour := req.GetColour(); {
	case colour == pb.NodeColour_NODE_COLOUR_ROOM && req.GetSize() != "":
		size, err := parseSize(req.GetSize())
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "size: %v", err)
		}
		x.size = size
	case colour == pb.NodeColour_NODE_COLOUR_ROOM || colour == pb.NodeColour_NODE_COLOUR_SCORE:
		x.explain = NewExplanation(&pb.ExplainRequest{Namespace: req.GetNamespace(), Name: req.GetName()})
		x.explain.judging.onto = &x.cells
	}
	return x, nil
}

// parseSize reads what a pod requests, such as "cpu=500m,memory=2Gi".
func parseSize(text string) (*pb.Resources, error) {
	out, seen := &pb.Resources{}, map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("want resource=quantity, as in cpu=500m,memory=2Gi, got %q", part)
		}
		if seen[name] {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("%s: want a quantity such as 500m or 2Gi, got %q", name, amount)
		}
		n := inUnits(v1.ResourceName(name), q)
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s: want 0 or more, got %s", name, amount)
		}
		switch name {
		case "cpu":
			out.MilliCpu = n
		case "memory":
			out.MemoryBytes = n
		case "ephemeral-storage":
			out.EphemeralStorageBytes = n
		case "pods":
			return nil, fmt.Errorf("pods: each pod takes one")
		default:
			out.Scalars = append(out.Scalars, &pb.ScalarResource{Name: name, Quantity: n})
		}
	}
	slices.SortFunc(out.Scalars, func(a, b *pb.ScalarResource) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Explanation is that of the pod that is asked for, whose steps are to be taken first; nil: none is, or they are all taken.
func (x *NodeMap) Explanation() *Explanation {
	if x.explained {
		return nil
	}
	return x.explain
}

// Step takes the next step; true: it was the last. explainer takes those of the pod's explanation.
func (x *NodeMap) Step(explainer *Explainer) (last bool) {
	if e := x.Explanation(); e != nil {
		if !explainer.Step(e) {
			return false
		}
		x.explained = true
		if e.err != nil || e.judging.x != nil && e.judging.x.told {
			return true
		}
		return false
	}
	if x.walk.next == nil {
		x.cells.reset() // what was taken in of a pod that is not judged to the end
	}
	return x.walk.some(rowsOf(x.tables), mappedAtOnce, x.look)
}

// End is called when no step follows.
func (x *NodeMap) End() {
	x.walk.end()
	if x.explain != nil {
		x.explain.End()
	}
}

// look takes a node in that no pod is held against.
func (x *NodeMap) look(row cache.Row) {
	t := x.tables.Table(int(row.Shard))
	name := t.Name(row.Index)
	node := x.tables.Node(name)
	if node == nil {
		return // it went since the step before
	}
	c := &x.cells
	switch {
	case x.explain != nil:
		c.class(node, notJudged)
	case x.req.GetColour() == pb.NodeColour_NODE_COLOUR_TAINTS:
		c.class(node, keepsOff(node))
	case x.req.GetColour() == pb.NodeColour_NODE_COLOUR_SHARD:
		c.class(node, fmt.Sprint("shard ", row.Shard))
	case x.size != nil && t.Unschedulable(row.Index):
		c.class(node, "cordoned")
	case x.size != nil:
		c.scale(node, t.Room(row.Index, x.size, func(string) bool { return false }))
	default:
		c.share(node, cmp.Or(x.req.GetResource(), "cpu"), t, row.Index)
	}
}

// share takes in the requested share of a resource, in hundredths.
func (c *nodeCells) share(node *v1.Node, resource string, t *scorer.Table, row uint32) {
	switch allocatable, requested := t.Amount(row, resource); {
	case allocatable <= 0:
		c.class(node, "has no "+resource)
	case requested > allocatable:
		c.class(node, "more "+resource+" is requested than there is")
	default:
		c.scale(node, int64(float64(requested)/float64(allocatable)*mapSteps))
	}
}

// keepsOff words what keeps pods off a node that do not tolerate it.
func keepsOff(n *v1.Node) string {
	var list []string
	if n.Spec.Unschedulable {
		list = append(list, "cordoned")
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != v1.TaintEffectPreferNoSchedule && t.Key != v1.TaintNodeUnschedulable {
			list = append(list, t.ToString())
		}
	}
	if len(list) == 0 {
		return "nothing keeps pods off"
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// groupValues are a node's values of the labels that make groups.
type groupValues [maxMapLabels]string

// nodeCells are the nodes that were looked at, in the order in which they were.
type nodeCells struct {
	x       *NodeMap
	list    []nodeCell
	groups  map[groupValues]int32
	classes map[string]int32
	// of are the scores of the plugin that is asked for, by group of the answer.
	of map[int]int64
}

// nodeCell is one node. class is below 0 where value is on the scale.
type nodeCell struct {
	name         string
	value        int64
	group, class int32
}

// reset begins anew.
func (c *nodeCells) reset() {
	nodes := 0
	for i := range c.x.tables.NumShards() {
		nodes += c.x.tables.Table(i).Nodes()
	}
	c.list = slices.Grow(c.list[:0], nodes)
	clear(c.groups)
	clear(c.classes)
	c.of = nil
}

func (c *nodeCells) scale(n *v1.Node, value int64) {
	c.list = append(c.list, nodeCell{n.Name, value, c.group(n), -1})
}

func (c *nodeCells) class(n *v1.Node, text string) {
	i, known := c.classes[text]
	if !known {
		i = int32(len(c.classes))
		c.classes[text] = i
	}
	c.list = append(c.list, nodeCell{n.Name, 0, c.group(n), i})
}

func (c *nodeCells) group(n *v1.Node) int32 {
	var values groupValues
	for i, key := range c.x.labels {
		values[i] = n.Labels[key]
	}
	i, known := c.groups[values]
	if !known {
		i = int32(len(c.groups))
		c.groups[values] = i
	}
	return i
}

// accept takes in a node that passes every filter for the pod.
func (c *nodeCells) accept(x *explainer, g *answers.Ranked) {
	node := x.q.Cluster.Node(x.Name(rowOf(g)))
	switch {
	case node == nil:
	case c.x.req.GetColour() == pb.NodeColour_NODE_COLOUR_ROOM:
		c.scale(node, x.room(rowOf(g)))
	case c.x.req.GetPlugin() == "":
		c.scale(node, g.Score)
	default:
		c.scale(node, c.scoreOf(x, g))
	}
}

// room is how many more pods like the one that is judged a row takes, by what they request. Resources that devices stand in for are
// passed over.
func (x *explainer) room(row cache.Row) int64 {
	served := x.class.Query.GetResourceClaims().GetExtended().GetResources()
	return x.Room(row, x.class.Query.GetFit().GetRequests(), func(name string) bool {
		return x.q.Profile.IgnoresResource(name) ||
			slices.ContainsFunc(served, func(m *pb.MappedResource) bool { return m.GetClass() != "" && m.GetName() == name })
	})
}

// refuse takes in a node that does not.
func (c *nodeCells) refuse(x *explainer, row cache.Row, reasons []scorer.Reason) {
	node := x.q.Cluster.Node(x.Name(row))
	switch {
	case node == nil:
	case len(reasons) == 0:
		c.class(node, "refused before any plugin filters")
	default:
		c.class(node, "refused by "+reasons[0].Plugin)
	}
}

// scoreOf is the score of the plugin that is asked for, normalised and without its weight.
func (c *nodeCells) scoreOf(x *explainer, g *answers.Ranked) int64 {
	plugin := c.x.req.GetPlugin()
	if c.of == nil {
		c.of = map[int]int64{}
	}
	score, known := c.of[g.Group]
	if !known {
		score = math.MinInt64
		for _, p := range x.class.Scorer.GroupScores(x.answer.Result(), x.answer.Standing(), g.Group) {
			if scorer.PluginName(p.Plugin) == plugin {
				score = p.Normalised
			}
		}
		c.of[g.Group] = score
	}
	if score != math.MinInt64 {
		return score
	}
	for _, p := range x.Scores(rowOf(g), x.class.Scorer) {
		if p.Name() == plugin {
			return p.Raw
		}
	}
	return 0
}

// Answer is the map, after the last step, and the names of its nodes in the order of the cells. It needs no loop.
func (x *NodeMap) Answer() (out *pb.GetNodeMapResponse, names []string, err error) {
	out = &pb.GetNodeMapResponse{}
	if x.explain != nil {
		if err := x.takePod(out); err != nil {
			return nil, nil, err
		}
	}
	c := &x.cells
	groupAt := c.tellGroups(out)
	cells := c.sorted(groupAt, out.Groups)
	out.Scale = x.scaleOf(cells)
	classAt := c.tellClasses(out, cells)
	names = make([]string, len(cells))
	out.Nodes, out.Cells = uint32(len(cells)), make([]byte, 0, 2*len(cells))
	for i := range cells {
		n := &cells[i]
		names[i] = n.name
		step := uint16(0)
		switch {
		case n.class >= 0:
			step = firstClass + classAt[n.class]
		case out.Scale.High > out.Scale.Low:
			step = uint16(math.Round(float64(n.value-out.Scale.Low) / float64(out.Scale.High-out.Scale.Low) * mapSteps))
		}
		if x.req.GetColour() == pb.NodeColour_NODE_COLOUR_ROOM && n.class < 0 {
			out.Room += uint64(n.value)
		}
		out.Cells = binary.LittleEndian.AppendUint16(out.Cells, step)
	}
	if x.unitOf() == shareUnit && out.Scale != nil {
		out.Scale.High = 100
	}
	out.Fingerprint = fingerprint(out.Groups, names)
	return out, names, nil
}

// takePod takes over what the explanation of the pod says.
func (x *NodeMap) takePod(out *pb.GetNodeMapResponse) error {
	e, err := x.explain.Answer()
	if err != nil {
		return err
	}
	out.Note = e.GetNote()
	if len(e.GetNotAsked()) > 0 {
		Note(e, "not asked: "+strings.Join(e.GetNotAsked(), ", "))
		out.Note = e.GetNote()
	}
	if j := x.explain.judging.x; j != nil && j.told {
		for _, s := range j.class.Query.GetScores() {
			out.Plugins = append(out.Plugins, scorer.PluginName(s.GetPlugin()))
		}
		slices.Sort(out.Plugins)
		out.Plugins = slices.Compact(out.Plugins)
		if p := x.req.GetPlugin(); p != "" && !slices.Contains(out.Plugins, p) {
			return status.Errorf(codes.InvalidArgument, "plugin: want one that scores nodes for pod %s/%s (%s), got %q",
				x.req.GetNamespace(), x.req.GetName(), strings.Join(out.Plugins, ", "), p)
		}
	}
	return nil
}

const shareUnit = "%"

func (x *NodeMap) unitOf() string {
	switch x.req.GetColour() {
	case pb.NodeColour_NODE_COLOUR_SCORE:
		return "points"
	case pb.NodeColour_NODE_COLOUR_ROOM:
		return "pods"
	}
	return shareUnit
}

// scaleOf is the scale of the cells that are on one; nil: none is. That of a share has steps of a thousandth.
func (x *NodeMap) scaleOf(cells []nodeCell) *pb.NodeScale {
	s := &pb.NodeScale{Low: math.MaxInt64, High: math.MinInt64, Unit: x.unitOf()}
	for i := range cells {
		if c := &cells[i]; c.class < 0 {
			s.Nodes++
			s.Low, s.High = min(s.Low, c.value), max(s.High, c.value)
		}
	}
	switch {
	case s.Nodes == 0:
		return nil
	case s.Unit == shareUnit:
		s.Low, s.High = 0, mapSteps
	case s.Unit == "pods":
		s.Low = 0
	}
	return s
}

// tellGroups writes the groups, sorted by their values, and tells at which place each is.
func (c *nodeCells) tellGroups(out *pb.GetNodeMapResponse) (at []int32) {
	sorted := slices.SortedFunc(maps.Keys(c.groups), func(a, b groupValues) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	at = make([]int32, len(sorted))
	for i, values := range sorted {
		place := min(i, maxMapGroups-1)
		at[c.groups[values]] = int32(place)
		if i < maxMapGroups {
			out.Groups = append(out.Groups, &pb.NodeGroup{Values: slices.Clone(values[:len(c.x.labels)])})
		}
	}
	if len(sorted) > maxMapGroups {
		out.Groups[maxMapGroups-1].Values = nil
	}
	for i := range c.list {
		out.Groups[at[c.list[i].group]].Nodes++
	}
	return at
}

// sorted are the cells by group, in a group by name.
func (c *nodeCells) sorted(groupAt []int32, groups []*pb.NodeGroup) []nodeCell {
	ends := make([]int, len(groups)) // of what each group has so far
	for i := 1; i < len(groups); i++ {
		ends[i] = ends[i-1] + int(groups[i-1].Nodes)
	}
	out := make([]nodeCell, len(c.list))
	for i := range c.list {
		end := &ends[groupAt[c.list[i].group]]
		out[*end] = c.list[i]
		*end++
	}
	for i, g := range groups {
		slices.SortFunc(out[ends[i]-int(g.Nodes):ends[i]], func(a, b nodeCell) int { return strings.Compare(a.name, b.name) })
	}
	return out
}

// tellClasses writes the classes, that of most nodes first, and tells at which place each is.
func (c *nodeCells) tellClasses(out *pb.GetNodeMapResponse, cells []nodeCell) (at []uint16) {
	list := make([]*pb.NodeClass, len(c.classes))
	place := make([]int32, len(c.classes))
	for text, i := range c.classes {
		list[i], place[i] = &pb.NodeClass{Text: text}, i
	}
	for i := range cells {
		if k := cells[i].class; k >= 0 {
			list[k].Nodes++
		}
	}
	slices.SortFunc(place, func(a, b int32) int {
		return cmp.Or(cmp.Compare(list[b].Nodes, list[a].Nodes), strings.Compare(list[a].Text, list[b].Text))
	})
	at = make([]uint16, len(c.classes))
	for i, k := range place {
		at[k] = uint16(min(i, maxMapClasses-1))
		switch {
		case i < maxMapClasses:
			out.Classes = append(out.Classes, list[k])
		default:
			last := out.Classes[maxMapClasses-1]
			last.Text, last.Nodes = otherClasses, last.Nodes+list[k].Nodes
		}
	}
	return at
}

// fingerprint tells apart maps of other nodes, or in another order.
func fingerprint(groups []*pb.NodeGroup, names []string) uint64 {
	h := xxhash.New()
	var text []byte
	write := func(s string) {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
		if len(text) > 4<<10 {
			_, _ = h.Write(text)
			text = text[:0]
		}
	}
	for _, g := range groups {
		write(strconv.FormatUint(uint64(g.GetNodes()), 10))
		for _, v := range g.GetValues() {
			write(v)
		}
	}
	for _, n := range names {
		write(n)
	}
	_, _ = h.Write(text)
	return h.Sum64()
}

// Looked is how many nodes were looked at so far.
func (x *NodeMap) Looked() int { return len(x.cells.list) }
