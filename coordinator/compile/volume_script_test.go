package compile

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// store is a cluster's storage in maps, and the pods that use it.
type store struct {
	claims     map[string]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	classes    map[string]*storagev1.StorageClass
	drivers    map[string]*storagev1.CSIDriver
	nodes      map[string]*storagev1.CSINode
	capacities []*storagev1.CSIStorageCapacity
	version    uint64
	// counters of what pods attach: by driver, and by volume.
	attached map[string]uint32
	used     map[Attachment]uint32
}

func newStore() *store {
	return &store{
		claims: map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, drivers: map[string]*storagev1.CSIDriver{},
		nodes: map[string]*storagev1.CSINode{}, attached: map[string]uint32{}, used: map[Attachment]uint32{},
	}
}

func (s *store) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return s.claims[namespace+"/"+name]
}
func (s *store) Volume(name string) *v1.PersistentVolume          { return s.volumes[name] }
func (s *store) StorageClass(name string) *storagev1.StorageClass { return s.classes[name] }
func (s *store) CSIDriver(name string) *storagev1.CSIDriver       { return s.drivers[name] }
func (s *store) AttachedCounter(driver string) uint32             { return s.attached[driver] }
func (s *store) UseCounter(a Attachment) uint32                   { return s.used[a] }
func (s *store) NamespacesOf(string) []string                     { return nil }
func (s *store) Version() uint64                                  { return s.version }

func (s *store) VolumesOf(class string) iter.Seq[*v1.PersistentVolume] {
	var out []*v1.PersistentVolume
	for _, pv := range s.volumes {
		name, ok := pv.Annotations[v1.BetaStorageClassAnnotation]
		if !ok {
			name = pv.Spec.StorageClassName
		}
		if name == class {
			out = append(out, pv)
		}
	}
	slices.SortFunc(out, func(a, b *v1.PersistentVolume) int {
		x, y := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
		return cmp.Or(x.Cmp(y), strings.Compare(a.Name, b.Name))
	})
	return slices.Values(out)
}

func (s *store) CapacitiesOf(class string) iter.Seq[*storagev1.CSIStorageCapacity] {
	return func(yield func(*storagev1.CSIStorageCapacity) bool) {
		for _, c := range s.capacities {
			if c.StorageClassName == class && !yield(c) {
				return
			}
		}
	}
}

// put takes in an object in YAML.
func (s *store) put(text string) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		return err
	}
	s.version++
	read := func(into any) error { return yaml.UnmarshalStrict([]byte(text), into) }
	switch kind.Kind {
	case "PersistentVolumeClaim":
		x := &v1.PersistentVolumeClaim{}
		err := read(x)
		x.Namespace = cmp.Or(x.Namespace, "default")
		s.claims[x.Namespace+"/"+x.Name] = x
		return err
	case "PersistentVolume":
		x := &v1.PersistentVolume{}
		err := read(x)
		s.volumes[x.Name] = x
		return err
	case "StorageClass":
		x := &storagev1.StorageClass{}
		err := read(x)
		s.classes[x.Name] = x
		return err
	case "CSIDriver":
		x := &storagev1.CSIDriver{}
		err := read(x)
		s.drivers[x.Name] = x
		return err
	case "CSINode":
		x := &storagev1.CSINode{}
		err := read(x)
		s.nodes[x.Name] = x
		return err
	case "CSIStorageCapacity":
		x := &storagev1.CSIStorageCapacity{}
		err := read(x)
		s.capacities = append(s.capacities, x)
		return err
	}
	return fmt.Errorf("unknown kind %q", kind.Kind)
}

// stored is a cluster with storage.
type stored struct {
	ClusterState
	store *store
}

func (w stored) Volumes() Volumes { return w.store }
func (stored) Devices() Devices   { return nil }

// volumeScript is the state of one script about volumes. Its commands:
//
//	nodes            as in the other scripts, with feature:NAME
//	storage          an object in YAML a line
//	lose             a line for each object to forget: claim NAME or volume NAME
//	present NODE     a pod's spec in YAML, which is on the node from now on
//	pod [filters=(A,B)] [name=NAME]      a pending pod's spec; answers why it is refused, or the nodes
type volumeScript struct {
	state  stored
	c      *Compiler
	nodes  []*v1.Node
	pods   map[string][]*v1.Pod
	placed int
}

func TestVolumeScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/volumes", func(t *testing.T, path string) {
		s := &volumeScript{state: stored{EmptyCluster(still{}), newStore()}, c: New(), pods: map[string][]*v1.Pod{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

func (s *volumeScript) run(d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "pod":
		return s.schedule(d)
	case "present":
		p, err := readPod(d.Input)
		if err != nil {
			return "", err
		}
		s.placed++
		p.Name = fmt.Sprint("placed-", s.placed)
		s.pods[d.CmdArgs[0].Key] = append(s.pods[d.CmdArgs[0].Key], p)
		return "", nil
	}
	for line := range strings.Lines(d.Input) {
		if err := s.line(d.Cmd, line); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *volumeScript) line(command, line string) error {
	switch command {
	case "storage":
		return s.state.store.put(line)
	case "lose":
		s.state.store.version++
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "claim" {
			delete(s.state.store.claims, "default/"+name)
		} else {
			delete(s.state.store.volumes, name)
		}
		return nil
	case "nodes":
		var words, features []string
		for _, w := range strings.Fields(line) {
			if f, ok := strings.CutPrefix(w, "feature:"); ok {
				features = append(features, f)
			} else {
				words = append(words, w)
			}
		}
		n, err := readNode(strings.Join(words, " "))
		if err == nil {
			n.Status.DeclaredFeatures = features
			s.nodes = slices.DeleteFunc(s.nodes, func(o *v1.Node) bool { return o.Name == n.Name })
			s.nodes = append(s.nodes, n)
		}
		return err
	}
	return fmt.Errorf("no command %q", command)
}

// volumePlugins are upstream's, in order.
func volumePlugins() []pb.Plugin {
	return []pb.Plugin{
		pb.Plugin_PLUGIN_NODE_AFFINITY, pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS, pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS,
		pb.Plugin_PLUGIN_VOLUME_BINDING, pb.Plugin_PLUGIN_VOLUME_ZONE, pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES,
	}
}

func profileOf(names string) (*Profile, error) {
	c := ProfileConfig{Name: "volumes", Filters: volumePlugins()}
	if names != "" {
		c.Filters = nil
		for name := range strings.SplitSeq(names, ",") {
			for _, f := range volumePlugins() {
				if scorer.PluginName(f) == strings.TrimSpace(name) {
					c.Filters = append(c.Filters, f)
				}
			}
		}
	}
	return newProfile(c)
}

// schedule answers the command pod.
func (s *volumeScript) schedule(d *datadriven.TestData) (string, error) {
	p, err := readPod(d.Input)
	if err != nil {
		return "", err
	}
	p.UID = "uid-of-p"
	filters := ""
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "filters":
			filters = strings.Join(a.Vals, ",")
		case "name":
			p.Name = a.Vals[0]
		}
	}
	prof, err := profileOf(filters)
	if err != nil {
		return "", err
	}
	s.recount()
	class, err := s.c.Class(p, prof, s.state)
	switch {
	case err != nil:
		return "", err
	case class.Rejected != nil:
		return fmt.Sprintf("rejected by %s: %s%s\n", strings.Join(class.Rejected.Plugins, " "), class.Rejected.Message, unresolvable(class.Rejected.Unresolvable)), nil
	}
	var names []string
	for _, f := range class.Query.Filters {
		names = append(names, scorer.PluginName(f))
	}
	out := fmt.Sprintf("asks %s", strings.Join(names, " "))
	if class.Volatile {
		out += "; volatile"
	}
	verdicts, err := s.verdicts(class)
	return out + "\n" + verdicts, err
}

// recount gives counters to what pods attach.
func (s *volumeScript) recount() {
	reg, st := s.state.Counters(), s.state.store
	for _, list := range s.pods {
		for _, p := range list {
			for _, a := range Attachments(p, st) {
				st.attached[a.Driver] = reg.Reserve("driver " + a.Driver)
				st.used[a] = reg.Reserve("volume " + a.Driver + " " + a.Handle)
			}
		}
	}
}

// table is the cluster as the deltas would lead to.
func (s *volumeScript) table() (*scorer.Table, error) {
	t := scorer.NewTable(0)
	for i, n := range s.nodes {
		row := Node(n)
		row.VolumeLimits, row.MigratedPlugins = VolumeLimits(s.state.store.nodes[n.Name]), MigratedPlugins(s.state.store.nodes[n.Name])
		deltas := []*pb.Delta{{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: row}}}
		for _, p := range s.pods[n.Name] {
			u := Usage(p)
			u.Counters = s.state.Counters().Contributions(p)
			deltas = append(deltas, &pb.Delta{Row: uint32(i), Change: &pb.Delta_AddPod{AddPod: u}})
		}
		if change := s.attachments(n.Name); len(change) > 0 {
			deltas = append(deltas, &pb.Delta{Row: uint32(i), Change: &pb.Delta_ChangeCounters{ChangeCounters: &pb.CounterChange{Counters: change}}})
		}
		for _, x := range deltas {
			if err := t.Apply(x); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// attachments are the counters of what a node's pods attach.
func (s *volumeScript) attachments(node string) []*pb.CounterValue {
	values := map[uint32]int64{}
	seen := map[Attachment]bool{}
	st := s.state.store
	for _, p := range s.pods[node] {
		for _, a := range Attachments(p, st) {
			values[st.used[a]]++
			if !seen[a] {
				seen[a] = true
				values[st.attached[a.Driver]]++
			}
		}
	}
	var out []*pb.CounterValue
	for id, v := range values {
		out = append(out, &pb.CounterValue{Counter: id, Value: v})
	}
	slices.SortFunc(out, func(a, b *pb.CounterValue) int { return cmp.Compare(a.Counter, b.Counter) })
	return out
}

// verdicts tells of each node whether the pod fits, or why not: first what the node itself
// decides, then what is decided for all of them.
func (s *volumeScript) verdicts(class *Class) (string, error) {
	t, err := s.table()
	if err != nil {
		return "", err
	}
	e := scorer.NewEvaluator(nil)
	var r scorer.Result
	r.Reset(class.ID(), 100)
	e.Evaluate(t, class.Scorer, scorer.Options{Candidates: 100}, &r)
	var standing scorer.Standing
	class.Scorer.Settle(&r, &standing)
	var b strings.Builder
	for row := range t.All() {
		plugin, why := e.Reasons(t, row, nil, class.Scorer)
		if len(why) == 0 && len(r.Groups) > 0 && !standing.Groups[0].Feasible {
			plugin, why = class.Scorer.GroupReasons(&r, &standing, 0)
		}
		if len(why) == 0 {
			fmt.Fprintf(&b, "%s: fits\n", t.Name(row))
			continue
		}
		var texts []string
		for _, w := range why {
			texts = append(texts, w.Text)
		}
		fmt.Fprintf(&b, "%s: %s: %s%s\n", t.Name(row), scorer.PluginName(plugin), strings.Join(texts, ", "), unresolvable(why[0].Unresolvable))
	}
	return b.String(), nil
}
