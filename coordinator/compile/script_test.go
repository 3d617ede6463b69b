package compile

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// script is the state of one golden script: a cluster of one shard, and a
// profile. Its commands:
//
//	nodes              a line for each node: its name, then resources as
//	                   cpu=4, and label:k=v, taint:k=v:Effect, image:name=size,
//	                   unschedulable. Without pods=N a node holds 110.
//	remove NODE        takes a node away
//	present NODE       a pod's spec (and its status, under "status") in YAML, which is
//	                   on the node from now on; answers what it takes
//	profile            arguments of plugins in YAML; the rest is upstream's default
//	pod                a pending pod's spec (and status) in YAML; answers, for each
//	                   node, its total and scores, or why it is refused
//
// A plugin's score is written raw, and raw→normalised where it is normalised.
type script struct {
	nodes   []string
	rows    map[string]uint32
	table   *scorer.Table
	images  *spread
	profile *Profile
	c       *Compiler
	eval    *scorer.Evaluator
}

// spread counts images as the coordinator's cache does.
type spread struct {
	sizes map[string]int64
	nodes map[string]map[string]bool
	total int
}

func (s *spread) Spread(name string) (int64, int, bool) {
	size, ok := s.sizes[name]
	return size, len(s.nodes[name]), ok
}

func (s *spread) TotalNodes() int { return s.total }

func (s *spread) add(n *v1.Node) {
	s.total++
	for _, i := range n.Status.Images {
		for _, name := range i.Names {
			if s.nodes[name] == nil {
				s.sizes[name], s.nodes[name] = i.SizeBytes, map[string]bool{}
			}
			s.nodes[name][n.Name] = true
		}
	}
}

func newScript() *script {
	return &script{
		rows:    map[string]uint32{},
		table:   scorer.NewTable(0),
		images:  &spread{sizes: map[string]int64{}, nodes: map[string]map[string]bool{}},
		profile: DefaultProfile(v1.DefaultSchedulerName),
		c:       New(),
		eval:    scorer.NewEvaluator(nil),
	}
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/volumes/") {
			return // TestVolumeScripts runs them
		}
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

func (s *script) run(d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "nodes":
		return s.addNodes(d.Input)
	case "remove":
		return s.remove(d.CmdArgs[0].Key)
	case "present":
		return s.present(d.CmdArgs[0].Key, d.Input)
	case "profile":
		return s.setProfile(d.Input)
	case "pod":
		p, err := readPod(d.Input)
		if err != nil {
			return "", err
		}
		return s.evaluate(p)
	}
	return "", fmt.Errorf("no command %q", d.Cmd)
}

// readPod reads a pod's spec, and its status under "status".
func readPod(input string) (*v1.Pod, error) {
	var body struct {
		v1.PodSpec `json:",inline"`
		Status     v1.PodStatus `json:"status"`
	}
	if err := yaml.UnmarshalStrict([]byte(input), &body); err != nil {
		return nil, err
	}
	p := &v1.Pod{Spec: body.PodSpec, Status: body.Status}
	p.Name, p.Namespace = "p", "default"
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []v1.Container{{Name: "main"}}
	}
	return p, nil
}

// readNode reads the line of a node.
func readNode(line string) (*v1.Node, error) {
	words := strings.Fields(line)
	n := &v1.Node{}
	n.Name, n.Labels = words[0], map[string]string{}
	n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}
	for _, w := range words[1:] {
		kind, rest, ok := strings.Cut(w, ":")
		key, value, _ := strings.Cut(rest, "=")
		switch {
		case w == "unschedulable":
			n.Spec.Unschedulable = true
		case ok && kind == "label":
			n.Labels[key] = value
		case ok && kind == "taint":
			value, effect, _ := strings.Cut(value, ":")
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
		case ok && kind == "image":
			size := resource.MustParse(value)
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: strings.Split(key, ","), SizeBytes: size.Value()})
		default:
			name, quantity, _ := strings.Cut(w, "=")
			q, err := resource.ParseQuantity(quantity)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w, err)
			}
			n.Status.Allocatable[v1.ResourceName(name)] = q
		}
	}
	return n, nil
}

func (s *script) addNodes(input string) (string, error) {
	for line := range strings.Lines(input) {
		n, err := readNode(line)
		if err != nil {
			return "", err
		}
		node := Node(n)
		if err := node.Validate(); err != nil {
			return "", err
		}
		row, ok := s.rows[n.Name]
		if !ok {
			row = uint32(len(s.nodes))
			s.rows[n.Name] = row
			s.nodes = append(s.nodes, n.Name)
			s.images.add(n)
		}
		if err := s.table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetNode{SetNode: node}}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *script) remove(name string) (string, error) {
	return "", s.table.Apply(&pb.Delta{Row: s.rows[name], Change: &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}})
}

func (s *script) present(node, input string) (string, error) {
	p, err := readPod(input)
	if err != nil {
		return "", err
	}
	row, ok := s.rows[node]
	if !ok {
		return "", fmt.Errorf("no node %q", node)
	}
	u := Usage(p)
	if err := u.Validate(); err != nil {
		return "", err
	}
	if err := s.table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_AddPod{AddPod: u}}); err != nil {
		return "", err
	}
	out := amounts(u.Requests)
	out += fmt.Sprintf("; non-zero cpu=%dm memory=%s", u.NonZeroMilliCpu, short(u.NonZeroMemoryBytes))
	for _, h := range u.HostPorts {
		out += fmt.Sprintf("; port %s:%d/%s", h.Ip, h.Port, strings.TrimPrefix(h.Protocol.String(), "PROTOCOL_"))
	}
	return out + "\n", nil
}

// amounts writes resources that are not zero.
func amounts(r *pb.Resources) string {
	var words []string
	if r.MilliCpu != 0 {
		words = append(words, fmt.Sprintf("cpu=%dm", r.MilliCpu))
	}
	if r.MemoryBytes != 0 {
		words = append(words, "memory="+short(r.MemoryBytes))
	}
	if r.EphemeralStorageBytes != 0 {
		words = append(words, "ephemeral-storage="+short(r.EphemeralStorageBytes))
	}
	for _, s := range r.Scalars {
		words = append(words, s.Name+"="+short(s.Quantity))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}

// short writes an amount in the largest unit that leaves no rest.
func short(v int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"Gi", 30}, {"Mi", 20}, {"Ki", 10}} {
		if v != 0 && v%(1<<u.shift) == 0 {
			return strconv.FormatInt(v>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}

func (s *script) setProfile(input string) (string, error) {
	var args struct {
		NodeAffinity configv1.NodeAffinityArgs                    `json:"nodeAffinity"`
		Fit          configv1.NodeResourcesFitArgs                `json:"fit"`
		Balanced     configv1.NodeResourcesBalancedAllocationArgs `json:"balanced"`
	}
	if err := yaml.UnmarshalStrict([]byte(input), &args); err != nil {
		return "", err
	}
	c := DefaultConfig("script")
	c.NodeAffinity, c.Fit, c.Balanced = args.NodeAffinity, args.Fit, args.Balanced
	p, err := NewProfile(c)
	if err == nil {
		s.profile = p
	}
	return "", err
}

// evaluate answers the command pod.
func (s *script) evaluate(p *v1.Pod) (string, error) {
	class, err := s.c.Class(p, s.profile, Alone(s.images))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if class.ScoreError != nil {
		fmt.Fprintf(&b, "score error: %v\n", class.ScoreError)
	}
	if r := class.Rejected; r != nil {
		fmt.Fprintf(&b, "rejected by %s: %s%s\n", strings.Join(r.Plugins, " "), r.Message, unresolvable(r.Unresolvable))
		return b.String(), nil
	}
	if err := class.Query.Validate(); err != nil {
		return "", err
	}
	extrema, feasible := s.extrema(class)
	best := int64(-1)
	for _, name := range s.nodes {
		row := s.rows[name]
		if !s.table.HasNode(row) {
			continue
		}
		var v scorer.Verdict
		s.eval.Row(s.table, row, nil, class.Scorer, false, &v)
		if !v.Passed {
			b.WriteString(s.refusal(name, row, class))
			continue
		}
		total := v.Local + class.Scorer.GroupScore(v.Key.Raw[:class.Scorer.KeyLen()], extrema)
		best = max(best, total)
		b.WriteString(s.scores(name, row, total, class, extrema))
	}
	return b.String(), s.check(class, extrema, feasible, best)
}

// extrema is the highest key of the feasible rows, and their number.
func (s *script) extrema(class *Class) (extrema []int64, feasible int) {
	extrema = make([]int64, class.Scorer.KeyLen())
	for _, row := range s.rows {
		if !s.table.HasNode(row) {
			continue
		}
		var v scorer.Verdict
		if s.eval.Row(s.table, row, nil, class.Scorer, false, &v); v.Passed {
			feasible++
			for i := range extrema {
				extrema[i] = max(extrema[i], v.Key.Raw[i])
			}
		}
	}
	return extrema, feasible
}

// refusal tells why a node is refused.
func (s *script) refusal(name string, row uint32, class *Class) string {
	_, reasons := s.eval.Reasons(s.table, row, nil, class.Scorer)
	out := name + ":"
	for i, r := range reasons {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprintf(" %s: %s%s", r.Plugin, r.Text, unresolvable(r.Unresolvable))
	}
	return out + "\n"
}

func unresolvable(u bool) string {
	if u {
		return " (unresolvable)"
	}
	return ""
}

// scores tells what each plugin gives a node. The sum is worked out here once
// more, from the normalised scores and their weights.
func (s *script) scores(name string, row uint32, total int64, class *Class, extrema []int64) string {
	sum := int64(0)
	words := ""
	for _, p := range s.eval.Scores(s.table, row, nil, class.Scorer) {
		normalised := class.Scorer.Normalise(p, extrema)
		sum += normalised * p.Weight
		words += fmt.Sprintf(" %s=%d", p.Name(), p.Raw)
		switch p.Plugin {
		case pb.Plugin_PLUGIN_TAINT_TOLERATION, pb.Plugin_PLUGIN_NODE_AFFINITY:
			words += fmt.Sprintf("→%d", normalised)
		}
	}
	if sum != total {
		words += fmt.Sprintf(" (but they sum up to %d)", sum)
	}
	return fmt.Sprintf("%s: %d%s\n", name, total, words)
}

// check holds the pass over the table against the rows one by one.
func (s *script) check(class *Class, extrema []int64, feasible int, best int64) error {
	var r scorer.Result
	r.Reset(class.ID(), 1)
	s.eval.Evaluate(s.table, class.Scorer, scorer.Options{Candidates: 1}, &r)
	if r.Feasible != feasible {
		return fmt.Errorf("the pass finds %d nodes feasible, the rows %d", r.Feasible, feasible)
	}
	top := int64(-1)
	for _, g := range r.Groups {
		for _, c := range g.Candidates {
			top = max(top, c.Score+class.Scorer.GroupScore(g.Key.Raw[:len(extrema)], extrema))
		}
	}
	if top != best {
		return fmt.Errorf("the pass finds %d as the best score, the rows %d", top, best)
	}
	return nil
}
