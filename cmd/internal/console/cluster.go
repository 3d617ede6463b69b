package console

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/nodemap"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func clusterPage() page {
	return page{path: "cluster", title: "Cluster", live: true, scripts: []string{"cluster.js"}, styles: []string{"cluster.css"},
		show: showCluster}
}

const (
	// ramp is of how many colours a scale is, and classColours how many classes have one: the others share the last.
	ramp, classColours = 6, 8
	// groupsShown is how many groups the table has, and classesShown how many classes the legend and a row have.
	groupsShown, classesShown = 500, 20
)

// clusterShown is what the page shows.
type clusterShown struct {
	Filters filters
	// Problem is why there is no map; empty: there is one.
	Problem, Note, Sentence string
	Map                     nodeMapShown
	Legend                  []legendEntry
	Groups, Resources       table
}

// nodeMapShown is what assets/cluster.js draws: the cells in base64, and JSON of the rest.
type nodeMapShown struct {
	Cells, About, Label string
	// Every is after how many milliseconds the page is asked for again: the more nodes, the more it costs.
	Every int
}

// mapAbout is the JSON beside the cells.
type mapAbout struct {
	Fingerprint string     `json:"fingerprint"`
	Groups      []mapGroup `json:"groups"`
	Classes     []string   `json:"classes"`
	Low         int64      `json:"low"`
	High        int64      `json:"high"`
	Unit        string     `json:"unit"`
	What        string     `json:"what"`
}

type mapGroup struct {
	Name  string `json:"name"`
	Nodes uint32 `json:"nodes"`
	// Shown is false where the filter leaves the group out.
	Shown bool `json:"shown"`
}

// legendEntry is one colour of the map. Key names it in assets/cluster.css.
type legendEntry struct {
	Key, Text, Count string
}

func showCluster(v *visit) (any, error) {
	out := clusterShown{}
	request, flags, problem := v.mapRequest()
	out.Problem = problem
	var m *pb.GetNodeMapResponse
	var f *pb.GetFragmentationResponse
	var mapErr error
	g, ctx := errgroup.WithContext(v)
	if problem == "" {
		g.Go(func() error {
			m, mapErr = v.client.GetNodeMap(ctx, request)
			if c := status.Code(mapErr); c == codes.NotFound || c == codes.InvalidArgument || c == codes.Aborted {
				return nil // it is about what was asked, and the page says it
			}
			return mapErr
		})
	}
	g.Go(func() (err error) {
		f, err = v.client.GetFragmentation(ctx, &pb.GetFragmentationRequest{})
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if mapErr != nil {
		out.Problem = status.Convert(mapErr).Message()
	}
	if out.Problem == "" {
		if err := out.takeMap(v, request, flags, m); err != nil {
			return nil, err
		}
	}
	out.Filters = v.clusterFilters(m, f)
	out.Resources = v.fragmentation(f)
	return out, nil
}

// mapRequest is the map that the query asks for, and the flags of the command line that asks for the same; or what is missing.
func (v *visit) mapRequest() (q *pb.GetNodeMapRequest, flags []string, problem string) {
	q = &pb.GetNodeMapRequest{}
	if by := v.get("by"); by != "" {
		for label := range strings.SplitSeq(by, ",") {
			q.GroupLabels = append(q.GroupLabels, strings.TrimSpace(label))
		}
		flags = append(flags, "--by", strings.Join(q.GroupLabels, ","))
	}
	tell := v.get("tell")
	if tell != "" && tell != "share" {
		flags = append(flags, "--tell", tell)
	}
	pod, size := v.get("pod"), v.get("size")
	switch tell {
	case "", "share":
		if q.Resource = v.get("resource"); q.Resource != "" {
			flags = append(flags, "--resource", q.Resource)
		}
		return q, flags, ""
	case "taints":
		q.Colour = pb.NodeColour_NODE_COLOUR_TAINTS
		return q, flags, ""
	case "shard":
		q.Colour = pb.NodeColour_NODE_COLOUR_SHARD
		return q, flags, ""
	case "score":
		q.Colour = pb.NodeColour_NODE_COLOUR_SCORE
		if q.Plugin = v.get("plugin"); q.Plugin != "" {
			flags = append(flags, "--plugin", q.Plugin)
		}
	case "room":
		q.Colour = pb.NodeColour_NODE_COLOUR_ROOM
		if size != "" {
			q.Size = size
			return q, append(flags, "--size", size), ""
		}
	default:
		return nil, nil, fmt.Sprintf("There is no map of %q.", tell)
	}
	namespace, name, joined := strings.Cut(pod, "/")
	switch {
	case pod == "" && tell == "room":
		return nil, nil, "Room is for pods of a size, such as cpu=2,memory=8Gi, or for pods like one: give a size or a pod."
	case !joined || namespace == "" || name == "":
		return nil, nil, "Name the pod as namespace/name, such as shop/web-0."
	}
	q.Namespace, q.Name = namespace, name
	return q, append(flags, "--pod", pod), ""
}

// whatIsTold words what the map tells.
func whatIsTold(q *pb.GetNodeMapRequest) string {
	pod := q.GetNamespace() + "/" + q.GetName()
	switch q.GetColour() {
	case pb.NodeColour_NODE_COLOUR_TAINTS:
		return "what keeps pods off"
	case pb.NodeColour_NODE_COLOUR_SHARD:
		return "the shard of each node"
	case pb.NodeColour_NODE_COLOUR_SCORE:
		if q.GetPlugin() != "" {
			return q.GetPlugin() + "'s score for pod " + pod
		}
		return "the score for pod " + pod + ", and who refuses it"
	case pb.NodeColour_NODE_COLOUR_ROOM:
		if q.GetSize() != "" {
			return "room for more pods of " + q.GetSize()
		}
		return "room for more pods like " + pod
	}
	resource := q.GetResource()
	if resource == "" {
		resource = "cpu"
	}
	return "the requested share of " + resource
}

// takeMap has the map, its legend and the table of groups be shown.
func (out *clusterShown) takeMap(v *visit, q *pb.GetNodeMapRequest, flags []string, m *pb.GetNodeMapResponse) error {
	groups, err := nodemap.Groups(m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	what, filter := whatIsTold(q), v.get("group")
	about := mapAbout{Fingerprint: fmt.Sprint(m.GetFingerprint()), Groups: make([]mapGroup, 0, len(groups)), Low: m.GetScale().GetLow(),
		High: m.GetScale().GetHigh(), Unit: m.GetScale().GetUnit(), What: what, Classes: []string{}}
	for _, c := range m.GetClasses() {
		about.Classes = append(about.Classes, c.GetText())
	}
	shown := groups[:0:0]
	for i := range groups {
		name := nodemap.Name(groups[i].Values)
		keeps := strings.Contains(name, filter)
		about.Groups = append(about.Groups, mapGroup{Name: name, Nodes: uint32(groups[i].Nodes), Shown: keeps})
		if keeps {
			shown = append(shown, groups[i])
		}
	}
	text, err := json.Marshal(about)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	out.Map = nodeMapShown{
		Cells: base64.StdEncoding.EncodeToString(m.GetCells()), About: string(text), Every: refreshEvery(m.GetNodes()),
		Label: fmt.Sprintf("Map of %s in %s: %s. Arrow keys go from node to node, Page Up and Page Down from group to group, "+
			"Enter opens a node, + and − zoom.", plural(m.GetNodes(), "node"), plural(len(groups), "group"), what),
	}
	out.Note = m.GetNote()
	out.Sentence = v.mapSentence(q, m)
	out.Legend = legend(m)
	out.Groups = v.groups(shown, m, append([]string{"top", "zones"}, flags...))
	return nil
}

// refreshEvery is after how many milliseconds a map of so many nodes is asked for again: it takes the loop a microsecond a node.
func refreshEvery(nodes uint32) int {
	switch {
	case nodes <= 5_000:
		return 2_000
	case nodes <= 20_000:
		return 5_000
	case nodes <= 50_000:
		return 20_000
	}
	return 40_000
}

// mapSentence says what the map comes to.
func (v *visit) mapSentence(q *pb.GetNodeMapRequest, m *pb.GetNodeMapResponse) string {
	nodes := "of " + plural(m.GetNodes(), "node")
	on := count(m.GetScale().GetNodes()) + " " + nodes
	switch q.GetColour() {
	case pb.NodeColour_NODE_COLOUR_SCORE:
		if m.GetScale() == nil {
			return "None " + nodes + " takes the pod."
		}
		return on + " take the pod, with " + count(m.GetScale().GetLow()) + " to " + count(m.GetScale().GetHigh()) + " points."
	case pb.NodeColour_NODE_COLOUR_ROOM:
		return "Room for " + plural(m.GetRoom(), "more pod") + " by what they request. What taints, spread, affinity, ports, volumes and " +
			"devices allow, shardsched capacity counts."
	}
	return "Of " + plural(m.GetNodes(), "node") + ": " + whatIsTold(q) + "."
}

// legend tells how many nodes each colour has.
func legend(m *pb.GetNodeMapResponse) (out []legendEntry) {
	if s := m.GetScale(); s != nil {
		var nodes [ramp]uint32
		for cells := m.GetCells(); len(cells) > 0; cells = cells[2:] {
			if step := int(binary.LittleEndian.Uint16(cells)); step <= nodemap.Steps {
				nodes[min(step*ramp/nodemap.Steps, ramp-1)]++
			}
		}
		value := func(i int) string {
			return nodemap.Rounded(float64(s.GetLow()) + float64(i)/ramp*float64(s.GetHigh()-s.GetLow()))
		}
		for i, n := range nodes {
			text := value(i) + " to " + value(i+1) + " " + s.GetUnit()
			if s.GetLow() == s.GetHigh() {
				text = value(0) + " " + s.GetUnit()
			}
			if n > 0 || s.GetLow() < s.GetHigh() {
				out = append(out, legendEntry{Key: fmt.Sprint("step", i), Text: text, Count: plural(n, "node")})
			}
		}
	}
	for i, c := range m.GetClasses() {
		if i == classesShown {
			out = append(out, legendEntry{Key: fmt.Sprint("class", classColours-1),
				Text: count(len(m.GetClasses())-i) + " more"})
			break
		}
		out = append(out, legendEntry{Key: fmt.Sprint("class", min(i, classColours-1)), Text: c.GetText(), Count: plural(c.GetNodes(), "node")})
	}
	return out
}

// groups is the table of what the map says, for whoever does not see it.
func (v *visit) groups(groups []nodemap.Group, m *pb.GetNodeMapResponse, command []string) table {
	unit := m.GetScale().GetUnit()
	t := table{
		Caption: "Groups of nodes", Empty: "No group has such a name.", Command: v.command(command...), Download: v.mapDownload(),
		Columns: []column{{Name: "Group"}, {Name: "Nodes", Number: true}, {Name: "Lowest", Number: true}, {Name: "Mean", Number: true},
			{Name: "Highest", Number: true}, {Name: "Else"}},
	}
	if n := len(groups) - groupsShown; n > 0 {
		t.LeftOut = plural(n, "more group") + " not shown: filter by name."
		groups = groups[:groupsShown]
	}
	for i := range groups {
		g := &groups[i]
		low, mean, high := "–", "–", "–"
		if g.Scaled > 0 {
			low, mean, high = nodemap.Rounded(g.Low)+" "+unit, nodemap.Rounded(g.Mean)+" "+unit, nodemap.Rounded(g.High)+" "+unit
		}
		var classes []string
		for k, c := range g.Classes {
			if k == classesShown {
				classes = append(classes, count(len(g.Classes)-k)+" more")
				break
			}
			classes = append(classes, count(c.Nodes)+" "+c.Text)
		}
		t.Rows = append(t.Rows, []cell{head(nodemap.Name(g.Values)), number(count(g.Nodes)), number(low), number(mean), number(high),
			words(cmp.Or(strings.Join(classes, "; "), "–"))})
	}
	return t
}

// mapDownload is the map as a file.
func (v *visit) mapDownload() string {
	q, _, problem := v.mapRequest()
	if problem != "" {
		return ""
	}
	pairs := []string{"resource", q.GetResource(), "namespace", q.GetNamespace(), "name", q.GetName(), "plugin", q.GetPlugin(),
		"size", q.GetSize()}
	if q.GetColour() != 0 {
		pairs = append(pairs, "colour", q.GetColour().String())
	}
	for _, label := range q.GetGroupLabels() {
		pairs = append(pairs, "group_labels", label)
	}
	return download("GetNodeMap", pairs...)
}

func (v *visit) clusterFilters(m *pb.GetNodeMapResponse, fr *pb.GetFragmentationResponse) filters {
	resources := []string{"", "cpu"}
	for _, r := range fr.GetResources() {
		if r.GetResource() != "cpu" {
			resources = append(resources, r.GetResource(), r.GetResource())
		}
	}
	plugins := []string{"", "all together"}
	names := slices.Clone(m.GetPlugins())
	if p := v.get("plugin"); p != "" && !slices.Contains(names, p) {
		names = append(names, p)
	}
	for _, p := range names {
		plugins = append(plugins, p, p)
	}
	tell := v.get("tell")
	if tell == "share" {
		tell = ""
	}
	f := filters{Label: "What the map tells", Fields: []field{
		choice("tell", "Tell", tell, "", "requested share", "taints", "taints and cordons", "shard", "shards", "score",
			"where a pod fits, and its score", "room", "room for more pods"),
		choice("resource", "Share of", v.get("resource"), resources...),
		{Name: "pod", Label: "Pod", Value: v.get("pod"), Hint: "namespace/name"},
		choice("plugin", "Score by", v.get("plugin"), plugins...),
		{Name: "size", Label: "Room for", Value: v.get("size"), Hint: "cpu=2,memory=8Gi"},
		{Name: "by", Label: "Group by labels", Value: v.get("by"), Hint: v1.LabelTopologyZone},
		{Name: "group", Label: "Groups named", Value: v.get("group"), Hint: "part of a name"},
	}}
	if v.request.URL.RawQuery != "" {
		f.Clear = link("cluster")
	}
	return f
}

// fragmentation is the table of what is left, by resource.
func (v *visit) fragmentation(f *pb.GetFragmentationResponse) table {
	t := table{
		Caption: "What is left, by resource", Empty: "No node has any resource.", Command: v.command("top", "resources"),
		Download: download("GetFragmentation"),
		Columns: []column{
			{Name: "Resource"}, {Name: "Requested", Number: true}, {Name: "Left", Number: true},
			{Name: "On cordoned nodes", Number: true, Help: "left, but no pod comes there"},
			{Name: "Stranded", Number: true, Help: "left, but cpu, memory or the number of pods is used up there"},
			{Name: "Most on one node", Number: true, Help: "of those that are not cordoned"},
			{Name: "Nodes by requested share", Help: "how many nodes are below 10 %, below 20 % and so on"},
		},
	}
	if f.GetLeftOut() > 0 {
		t.LeftOut = plural(f.GetLeftOut(), "more resource") + " not shown."
	}
	for _, r := range f.GetResources() {
		words10 := make([]string, 0, len(r.GetNodesByDecile()))
		for _, n := range r.GetNodesByDecile() {
			words10 = append(words10, count(n))
		}
		amount := func(n int64) string { return quantity(r.GetResource(), n) }
		stranded := number(amount(r.GetStranded()))
		if r.GetStrandedNodes() > 0 {
			stranded = stranded.below("on " + plural(r.GetStrandedNodes(), "node")).marked("warn")
		}
		largest := number(amount(r.GetLargest()))
		if r.GetLargestNode() != "" {
			largest = largest.below(r.GetLargestNode()).to(link("node", "name", r.GetLargestNode()))
		}
		share := percent(float64(r.GetRequested()), float64(r.GetAllocatable()))
		t.Rows = append(t.Rows, []cell{
			head(r.GetResource()),
			number(amount(r.GetRequested())).below(share + " of " + amount(r.GetAllocatable())),
			number(amount(r.GetAllocatable() - r.GetRequested())), number(amount(r.GetCordoned())), stranded, largest,
			words(strings.Join(words10, " · ")),
		})
	}
	return t
}
