package claims

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/scorer/devices"
)

// Driver is the domain of names in scripts that have none.
const Driver = "gpu.example.com"

// Read reads a cluster, a line for each thing:
//
//	node NAME LABEL=VALUE…
//	class NAME [EXPRESSION]
//	pool [DRIVER/]NAME [generation=N] [of=N]      slices follow; of: how many there are, as told (default: as many as follow)
//	slice NAME on=NODE|all|LABEL=VALUE[|VALUE]|each|nothing|unreadable
//	counters SET NAME:AMOUNT…
//	dev NAME WORD…
//	used [DRIVER/]POOL/DEVICE [share] [holds] [NAME:AMOUNT…]     without share and holds: as a whole
//
// where the words of a device are
//
//	NAME=VALUE                       an attribute: a number, true, false, v1.2.3 (a version), ? (unknown), or a text
//	NAME:AMOUNT[(POLICY)]            a capacity; policy: default=A,min=A,max=A,step=A or default=A,values=A|A
//	!KEY=VALUE:EFFECT                a taint
//	-SET/NAME:AMOUNT,NAME:AMOUNT     what it consumes
//	on=…                             its nodes, where the slice's are each
//	multi, conditions, binds
func Read(text string) (scene *Scene, err error) {
	defer caught(&err)
	s := &Scene{Classes: map[string]*resourceapi.DeviceClass{}, Features: devices.DefaultFeatures()}
	r := reader{scene: s, named: map[string]int64{}}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			r.line(f, strings.TrimSpace(line))
		}
	}
	for _, slice := range s.Slices {
		if n := r.named[slice.Spec.Driver+"/"+slice.Spec.Pool.Name]; slice.Spec.Pool.ResourceSliceCount == 0 {
			slice.Spec.Pool.ResourceSliceCount = n
		}
	}
	return s, nil
}

// caught makes an error of a panic: words that can't be read panic, and scripts are people's.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%v", r)
	}
}

type reader struct {
	scene *Scene
	pool  resourceapi.ResourceSliceSpec
	// named counts the slices of pools.
	named map[string]int64
}

func (r *reader) line(f []string, line string) {
	s := r.scene
	switch f[0] {
	case "node":
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: f[1], Labels: map[string]string{}}}
		for _, w := range f[2:] {
			k, v, _ := strings.Cut(w, "=")
			n.Labels[k] = v
		}
		s.Nodes = append(s.Nodes, n)
	case "class":
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: f[1]}}
		if len(f) > 2 {
			c.Spec.Selectors = append(c.Spec.Selectors, expression(strings.TrimSpace(strings.SplitN(line, f[1], 2)[1])))
		}
		s.Classes[f[1]] = c
	case "pool":
		r.pool = resourceapi.ResourceSliceSpec{}
		r.pool.Driver, r.pool.Pool.Name = qualified(f[1])
		r.pool.Pool.Generation, r.pool.Pool.ResourceSliceCount = number(f, "generation"), number(f, "of")
	case "slice":
		spec := r.pool
		spec.NodeName, spec.AllNodes, spec.NodeSelector, spec.PerDeviceNodeSelection = selection(word(f, "on"))
		r.named[spec.Driver+"/"+spec.Pool.Name]++
		s.Slices = append(s.Slices, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: f[1]}, Spec: spec})
	case "counters":
		spec := &s.Slices[len(s.Slices)-1].Spec
		spec.SharedCounters = append(spec.SharedCounters, resourceapi.CounterSet{Name: f[1], Counters: countersOf(f[2:])})
	case "dev":
		spec := &s.Slices[len(s.Slices)-1].Spec
		spec.Devices = append(spec.Devices, device(f[1], f[2:]))
	case "used":
		s.Used = append(s.Used, used(f[1:]))
	default:
		panic("unknown line: " + line)
	}
}

// qualified splits [DRIVER/]NAME.
func qualified(text string) (driver, name string) {
	driver, name, ok := strings.Cut(text, "/")
	if !ok {
		return Driver, text
	}
	return driver, name
}

func word(f []string, key string) string {
	for _, w := range f {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return ""
}

func number(f []string, key string) int64 {
	text := word(f, key)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func selection(text string) (name *string, all *bool, selector *v1.NodeSelector, each *bool) {
	yes := true
	switch label, value, labelled := strings.Cut(text, "="); {
	case text == "all":
		return nil, &yes, nil, nil
	case text == "each":
		return nil, nil, nil, &yes
	case text == "" || text == "nothing":
		return nil, nil, nil, nil
	case text == "unreadable":
		return nil, nil, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}},
		}}}, nil
	case labelled:
		term := func(v string) v1.NodeSelectorTerm {
			in := v1.NodeSelectorRequirement{Key: label, Operator: v1.NodeSelectorOpIn, Values: []string{v}}
			return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{in}}
		}
		selector = &v1.NodeSelector{}
		for v := range strings.SplitSeq(value, "|") { // a term for each value
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term(v))
		}
		return nil, nil, selector, nil
	}
	return &text, nil, nil, nil
}

func expression(text string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: text}}
}

func quantities(words []string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for _, w := range words {
		name, amount, ok := strings.Cut(w, ":")
		if !ok {
			panic("no amount: " + w)
		}
		out[name] = resource.MustParse(amount)
	}
	return out
}

func countersOf(words []string) map[string]resourceapi.Counter {
	out := map[string]resourceapi.Counter{}
	for name, q := range quantities(words) {
		out[name] = resourceapi.Counter{Value: q}
	}
	return out
}

func used(f []string) Used {
	driver, rest, _ := strings.Cut(f[0], "/")
	pool, device, ok := strings.Cut(rest, "/")
	if !ok {
		driver, pool, device = Driver, driver, rest
	}
	u := Used{Driver: driver, Pool: pool, Device: device}
	for i, w := range f[1:] {
		if w == "share" {
			u.Share = true
		} else if w == "holds" {
			u.Holds = quantities(f[i+2:])
			break
		} else {
			panic("unknown word: " + w)
		}
	}
	u.Whole = !u.Share && u.Holds == nil
	return u
}

func device(name string, words []string) resourceapi.Device {
	yes := true
	d := resourceapi.Device{
		Name:       name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
	}
	for _, w := range words {
		switch {
		case w == "multi":
			d.AllowMultipleAllocations = &yes
		case w == "conditions":
			d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
		case w == "binds":
			d.BindsToNode = &yes
		case strings.HasPrefix(w, "on="):
			d.NodeName, d.AllNodes, d.NodeSelector, _ = selection(w[3:])
		case w[0] == '!':
			d.Taints = append(d.Taints, taint(w[1:]))
		case w[0] == '-':
			set, list, _ := strings.Cut(w[1:], "/")
			c := resourceapi.DeviceCounterConsumption{CounterSet: set}
			if list != "" {
				c.Counters = countersOf(strings.Split(list, ","))
			}
			d.ConsumesCounters = append(d.ConsumesCounters, c)
		case strings.Contains(w, ":"):
			name, text, _ := strings.Cut(w, ":")
			d.Capacity[resourceapi.QualifiedName(name)] = capacity(text)
		default:
			name, text, _ := strings.Cut(w, "=")
			d.Attributes[resourceapi.QualifiedName(name)] = attribute(text)
		}
	}
	return d
}

func taint(text string) resourceapi.DeviceTaint {
	rest, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	return resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffect(effect)}
}

func attribute(text string) resourceapi.DeviceAttribute {
	if text == "?" {
		return resourceapi.DeviceAttribute{IntValues: []int64{1}}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return resourceapi.DeviceAttribute{IntValue: &n}
	}
	if yes, err := strconv.ParseBool(text); err == nil && len(text) > 1 {
		return resourceapi.DeviceAttribute{BoolValue: &yes}
	}
	if len(text) > 1 && text[0] == 'v' && text[1] >= '0' && text[1] <= '9' {
		text = text[1:]
		return resourceapi.DeviceAttribute{VersionValue: &text}
	}
	return resourceapi.DeviceAttribute{StringValue: &text}
}

func capacity(text string) resourceapi.DeviceCapacity {
	amount, rest, limited := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	c := resourceapi.DeviceCapacity{Value: resource.MustParse(amount)}
	if !limited {
		return c
	}
	p, r := &resourceapi.CapacityRequestPolicy{}, &resourceapi.CapacityRequestPolicyRange{}
	c.RequestPolicy = p
	for w := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(w, "=")
		if key == "values" {
			for v := range strings.SplitSeq(value, "|") {
				p.ValidValues = append(p.ValidValues, resource.MustParse(v))
			}
			continue
		}
		q := resource.MustParse(value)
		switch key {
		case "default":
			p.Default = &q
		case "min":
			r.Min, p.ValidRange = &q, r
		case "max":
			r.Max, p.ValidRange = &q, r
		case "step":
			r.Step, p.ValidRange = &q, r
		default:
			panic("unknown policy: " + w)
		}
	}
	return c
}
