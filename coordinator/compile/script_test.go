package compile

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/objects"
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
//	objects            Namespaces, Services and workloads in YAML, one after the other
//	present NODE       a pod's spec (and its status, under "status", and metadata, under
//	                   "metadata") in YAML, which is on the node from now on; answers what
//	                   it takes
//	pods               a line for each kind of pod that is there: its node, then labels
//	                   k=v, and ns:name, terminating, x3 for three of them
//	profile            arguments of plugins in YAML, and the plugins under "only"; the rest
//	                   is upstream's default
//	pod                a pending pod's spec (and status and metadata) in YAML; answers,
//	                   for each node, its total and scores, or why it is refused. With the
//	                   word query: what it asks of the cluster, too
//
// A plugin's score is written raw, and raw→normalised where it is normalised.
type script struct {
	*clusterModel
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
	return &script{clusterModel: newClusterModel(), profile: DefaultProfile(v1.DefaultSchedulerName), c: New(), eval: scorer.NewEvaluator(nil)}
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
		return "", s.eachLine(d.Input, s.addNode)
	case "remove":
		return "", s.removeNode(d.CmdArgs[0].Key)
	case "objects":
		return "", s.setObjects(d.Input)
	case "present":
		return s.present(d.CmdArgs[0].Key, d.Input)
	case "pods":
		return "", s.eachLine(d.Input, s.addPods)
	case "profile":
		return s.setProfile(d.Input)
	case "pod":
		p, err := readPod(d.Input)
		if err != nil {
			return "", err
		}
		return s.evaluate(p, d.HasArg("query"))
	}
	return "", fmt.Errorf("no command %q", d.Cmd)
}

func (s *script) eachLine(input string, f func(line string) error) error {
	for line := range strings.Lines(input) {
		if err := f(line); err != nil {
			return err
		}
	}
	return nil
}

// readPod reads a pod's spec, its status under "status", and its metadata.
func readPod(input string) (*v1.Pod, error) {
	var body struct {
		v1.PodSpec `json:",inline"`
		Status     v1.PodStatus      `json:"status"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.UnmarshalStrict([]byte(input), &body); err != nil {
		return nil, err
	}
	p := &v1.Pod{ObjectMeta: body.Metadata, Spec: body.PodSpec, Status: body.Status}
	p.Name, p.Namespace = cmp.Or(p.Name, "p"), cmp.Or(p.Namespace, "default")
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []v1.Container{{Name: "main"}}
	}
	return p, nil
}

// setObjects takes objects in YAML.
func (s *script) setObjects(input string) error {
	for _, text := range strings.Split(input, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			return err
		}
		o := objects.New(objects.Kind(kind.Kind))
		if o == nil {
			return fmt.Errorf("no kind %q", kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
			return err
		}
		if objects.Kind(kind.Kind).Namespaced() {
			o.SetNamespace(cmp.Or(o.GetNamespace(), "default"))
		}
		s.cluster.Set(nil, o)
	}
	return nil
}

// addPods adds the pods of one line.
func (s *script) addPods(line string) error {
	words := strings.Fields(line)
	p, err := readPod("{}")
	if err != nil {
		return err
	}
	p.Labels = map[string]string{}
	n := 1
	for _, w := range words[1:] {
		key, value, isLabel := strings.Cut(w, "=")
		switch {
		case isLabel:
			p.Labels[key] = value
		case strings.HasPrefix(w, "ns:"):
			p.Namespace = w[len("ns:"):]
		case w == "terminating":
			p.DeletionTimestamp = &metav1.Time{}
		default:
			if _, err := fmt.Sscanf(w, "x%d", &n); err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
		}
	}
	for range n {
		if _, err := s.place(words[0], p); err != nil {
			return err
		}
	}
	return nil
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

func (s *script) addNode(line string) error {
	n, err := readNode(line)
	if err != nil {
		return err
	}
	return s.setNode(n)
}

func (s *script) present(node, input string) (string, error) {
	p, err := readPod(input)
	if err != nil {
		return "", err
	}
	u, err := s.place(node, p)
	if err != nil {
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
