package policy

import (
	"encoding/base64"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Policy is a Policy as its file has it.
type Policy struct {
	// File is what errors name.
	File string
	// Predicates is nil where the file has no list, which stands for the defaults.
	Predicates []Predicate
	// Priorities likewise.
	Priorities []Priority
	Extenders  []configv1.Extender
	// HardPodAffinitySymmetricWeight is 0 to 100; 0: not given.
	HardPodAffinitySymmetricWeight int32
	AlwaysCheckAllPredicates       bool

	provider  string // the algorithm provider that this stands for; empty: none
	lines     map[string]int
	apiFields int // extenders with an apiVersion of their own
}

// Predicate filters nodes. At most one argument is there.
type Predicate struct {
	Name            string
	ServiceAffinity *ServiceAffinity
	LabelsPresence  *LabelsPresence
}

// Priority scores nodes with a weight of at least 1. At most one argument is there.
type Priority struct {
	Name                string
	Weight              int64
	ServiceAntiAffinity *ServiceAntiAffinity
	LabelPreference     *LabelPreference
	CapacityRatio       *CapacityRatio
}

// ServiceAffinity keeps the pods of a service on nodes with equal labels.
type ServiceAffinity struct{ Labels []string }

// LabelsPresence wants nodes that have all of these labels, or none.
type LabelsPresence struct {
	Labels   []string
	Presence bool
}

// ServiceAntiAffinity spreads the pods of a service over a label's values.
type ServiceAntiAffinity struct{ Label string }

// LabelPreference likes nodes that have a label, or lack it.
type LabelPreference struct {
	Label    string
	Presence bool
}

// CapacityRatio scores by a function of how much is used: 0 to 100 %, 0 to 10 points.
type CapacityRatio struct {
	Shape     []configv1.UtilizationShapePoint
	Resources []configv1.ResourceSpec
}

// Parse reads a Policy, YAML or JSON. What is wrong with it comes as *config.Error, several
// of them joined; they name the file and the line.
func Parse(file string, data []byte) (*Policy, error) {
	return parse(file, data, 0)
}

// parse is Parse for a text that begins after so many lines of the file.
func parse(file string, data []byte, after int) (*Policy, error) {
	d := &decoder{file: file, after: after, lines: map[string]int{}, broken: map[string]bool{}}
	root, err := d.document(data)
	if err != nil {
		return nil, err
	}
	p := &Policy{File: file, lines: d.lines}
	d.header(root)
	if err := d.err(); err != nil {
		return nil, err
	}
	d.object(root, "", fields{
		"apiVersion": func(*value) {}, "kind": func(*value) {},
		"predicates": func(v *value) {
			p.Predicates = list(d, v, func(v *value) Predicate { return d.predicate(v) })
		},
		"priorities": func(v *value) { p.Priorities = list(d, v, func(v *value) Priority { return d.priority(v) }) },
		"extenders": func(v *value) {
			p.Extenders = list(d, v,
				func(v *value) configv1.Extender { return d.extender(p, v) })
		},
		"hardPodAffinitySymmetricWeight": func(v *value) { p.HardPodAffinitySymmetricWeight = int32(d.integer(v, 0, 100)) },
		"alwaysCheckAllPredicates":       func(v *value) { p.AlwaysCheckAllPredicates = d.boolean(v) },
	})
	return p, d.err()
}

func (d *decoder) predicate(v *value) Predicate {
	var p Predicate
	d.object(v.node, v.path, fields{
		"name": func(v *value) { p.Name = d.text(v) },
		"argument": func(v *value) {
			d.object(v.node, v.path, fields{
				"serviceAffinity": func(v *value) {
					p.ServiceAffinity = &ServiceAffinity{}
					d.object(v.node, v.path, fields{"labels": func(v *value) { p.ServiceAffinity.Labels = list(d, v, d.label) }})
				},
				"labelsPresence": func(v *value) {
					p.LabelsPresence = &LabelsPresence{}
					d.object(v.node, v.path, fields{
						"labels":   func(v *value) { p.LabelsPresence.Labels = list(d, v, d.label) },
						"presence": func(v *value) { p.LabelsPresence.Presence = d.boolean(v) },
					})
				},
			})
			d.oneArgument(v, "predicate", p.ServiceAffinity != nil, p.LabelsPresence != nil)
		},
	})
	if p.Name == "" && !d.failed(v.path+".name") {
		d.at(v, "name", "expected the name of a predicate")
	}
	return p
}

func (d *decoder) priority(v *value) Priority {
	p := Priority{}
	d.object(v.node, v.path, fields{
		"name":   func(v *value) { p.Name = d.text(v) },
		"weight": func(v *value) { p.Weight = d.integer(v, math.MinInt64, math.MaxInt64) },
		"argument": func(v *value) {
			d.object(v.node, v.path, fields{
				"serviceAntiAffinity": func(v *value) {
					p.ServiceAntiAffinity = &ServiceAntiAffinity{}
					d.object(v.node, v.path, fields{"label": func(v *value) { p.ServiceAntiAffinity.Label = d.label(v) }})
				},
				"labelPreference": func(v *value) {
					p.LabelPreference = &LabelPreference{}
					d.object(v.node, v.path, fields{
						"label":    func(v *value) { p.LabelPreference.Label = d.label(v) },
						"presence": func(v *value) { p.LabelPreference.Presence = d.boolean(v) },
					})
				},
				"requestedToCapacityRatioArguments": func(v *value) { p.CapacityRatio = d.capacityRatio(v) },
			})
			d.oneArgument(v, "priority", p.ServiceAntiAffinity != nil, p.LabelPreference != nil, p.CapacityRatio != nil)
		},
	})
	if p.Name == "" && !d.failed(v.path+".name") {
		d.at(v, "name", "expected the name of a priority")
	}
	if (p.Weight < 1 || p.Weight > math.MaxInt32) && !d.failed(v.path+".weight") {
		d.at(v, "weight", fmt.Sprintf("priority %s should have a positive weight applied to it or it has overflown", clip(p.Name)))
	}
	return p
}

func (d *decoder) capacityRatio(v *value) *CapacityRatio {
	c := &CapacityRatio{}
	d.object(v.node, v.path, fields{
		"shape": func(v *value) {
			c.Shape = list(d, v, func(v *value) (p configv1.UtilizationShapePoint) {
				d.object(v.node, v.path, fields{
					"utilization": func(v *value) { p.Utilization = int32(d.integer(v, 0, 100)) },
					"score":       func(v *value) { p.Score = int32(d.integer(v, 0, 10)) },
				})
				return p
			})
		},
		"resources": func(v *value) {
			c.Resources = list(d, v, func(v *value) (r configv1.ResourceSpec) {
				d.object(v.node, v.path, fields{
					"name":   func(v *value) { r.Name = d.text(v) },
					"weight": func(v *value) { r.Weight = d.integer(v, 0, 100) },
				})
				return r
			})
		},
	})
	if len(c.Shape) == 0 && !d.failed(v.path+".shape") {
		d.at(v, "shape", "expected at least one point")
	}
	for i := 1; i < len(c.Shape); i++ {
		if c.Shape[i-1].Utilization >= c.Shape[i].Utilization {
			d.at(v, fmt.Sprintf("shape[%d]", i), "utilization values must be sorted in increasing order")
			break
		}
	}
	return c
}

// oneArgument holds an argument that is there to be exactly one.
func (d *decoder) oneArgument(v *value, what string, there ...bool) {
	n := 0
	for _, t := range there {
		if t {
			n++
		}
	}
	if n != 1 && !d.failed(v.path) {
		d.at(v, "", fmt.Sprintf("exactly 1 %s argument is required, numArgs: %d", what, n))
	}
}

// extender reads one as all versions did: without regard to case.
func (d *decoder) extender(p *Policy, v *value) configv1.Extender {
	var e configv1.Extender
	d.anyCase(v.node, v.path, fields{
		"urlPrefix":      func(v *value) { e.URLPrefix = d.text(v) },
		"filterVerb":     func(v *value) { e.FilterVerb = d.text(v) },
		"preemptVerb":    func(v *value) { e.PreemptVerb = d.text(v) },
		"prioritizeVerb": func(v *value) { e.PrioritizeVerb = d.text(v) },
		"weight":         func(v *value) { e.Weight = d.integer(v, math.MinInt64, math.MaxInt64) },
		"bindVerb":       func(v *value) { e.BindVerb = d.text(v) },
		"enableHttps":    func(v *value) { e.EnableHTTPS = d.boolean(v) },
		"tlsConfig":      func(v *value) { e.TLSConfig = d.tls(v) },
		"httpTimeout": func(v *value) {
			e.HTTPTimeout = metav1.Duration{Duration: time.Duration(d.nanoseconds(v))}
		},
		"nodeCacheCapable": func(v *value) { e.NodeCacheCapable = d.boolean(v) },
		"managedResources": func(v *value) {
			e.ManagedResources = list(d, v, func(v *value) (r configv1.ExtenderManagedResource) {
				d.anyCase(v.node, v.path, fields{
					"name":               func(v *value) { r.Name = d.text(v) },
					"ignoredByScheduler": func(v *value) { r.IgnoredByScheduler = d.boolean(v) },
				})
				return r
			})
		},
		"ignorable":  func(v *value) { e.Ignorable = d.boolean(v) },
		"apiVersion": func(v *value) { d.text(v); p.apiFields++ },
	})
	return e
}

func (d *decoder) tls(v *value) *configv1.ExtenderTLSConfig {
	if v.null() {
		return nil
	}
	t := &configv1.ExtenderTLSConfig{}
	d.anyCase(v.node, v.path, fields{
		"insecure":   func(v *value) { t.Insecure = d.boolean(v) },
		"serverName": func(v *value) { t.ServerName = d.text(v) },
		"certFile":   func(v *value) { t.CertFile = d.text(v) },
		"keyFile":    func(v *value) { t.KeyFile = d.text(v) },
		"caFile":     func(v *value) { t.CAFile = d.text(v) },
		"certData":   func(v *value) { t.CertData = d.base64(v) },
		"keyData":    func(v *value) { t.KeyData = d.base64(v) },
		"caData":     func(v *value) { t.CAData = d.base64(v) },
	})
	return t
}

// nanoseconds is a duration as Policy has it: a number. A text never worked.
func (d *decoder) nanoseconds(v *value) int64 {
	if v.node.ShortTag() == "!!str" {
		d.at(v, "", fmt.Sprintf("expected a number of nanoseconds, such as %d for 5s", 5*time.Second))
		return 0
	}
	return d.integer(v, math.MinInt64, math.MaxInt64)
}

func (d *decoder) base64(v *value) []byte {
	out, err := base64.StdEncoding.DecodeString(d.text(v))
	if err != nil {
		d.at(v, "", "expected base64")
	}
	return out
}

// label is a label's key.
func (d *decoder) label(v *value) string {
	key := d.text(v)
	if errs := validation.IsQualifiedName(key); len(errs) > 0 && !d.failed(v.path) {
		d.at(v, "", fmt.Sprintf("%q is no label's key: %s", clip(key), errs[0]))
	}
	return key
}
