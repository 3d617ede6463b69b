package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// set is what a file says of an extension point.
type set struct {
	Enabled  []plugin `yaml:"enabled,omitempty"`
	Disabled []plugin `yaml:"disabled,omitempty"`
}

type plugin struct {
	Name   string `yaml:"name"`
	Weight int64  `yaml:"weight,omitempty"`
}

// pointOrder is the order in which extension points are written.
func pointOrder() []string {
	return []string{"multiPoint", "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve",
		"preBind", "bind"}
}

// younger are the plugins of the default list that no name of a Policy stands for.
func younger() []*rules.Rule {
	named := map[string]bool{}
	for _, n := range Names() {
		for _, plugin := range n.Plugins {
			named[plugin] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rules.All()), func(r *rules.Rule) bool { return !r.InDefault(groups.Gates{}) || named[r.Name] })
}

// youngerNames are the names of younger: those that filter stand in the middle.
func youngerNames() string {
	var before, filters, after []string
	for _, r := range younger() {
		switch {
		case r.At(framework.Filter):
			filters = append(filters, r.Name)
		case r.At(framework.PostFilter) || r.At(framework.Bind):
			after = append(after, r.Name)
		default:
			before = append(before, r.Name)
		}
	}
	return strings.Join(slices.Concat(before, filters, after), ", ")
}

// sets are the plugins by extension point. No default is left.
func (p *profile) sets() map[string]set {
	byPoint := map[string][]plugin{}
	add := func(r *rules.Rule, weight int64, points ...framework.Point) {
		for _, at := range points {
			switch {
			case !r.At(at):
			case at == framework.Score:
				byPoint[at.Field()] = append(byPoint[at.Field()], plugin{Name: r.Name, Weight: weight})
			default:
				byPoint[at.Field()] = append(byPoint[at.Field()], plugin{Name: r.Name})
			}
		}
	}
	for _, name := range p.filters {
		add(rules.Find(name), 0, framework.PreFilter, framework.Filter, framework.Reserve, framework.PreBind)
	}
	for _, r := range rules.All() { // in the order of the default list
		if w := p.scores[r.Name]; w != 0 {
			add(r, w, framework.PreScore, framework.Score)
		}
	}
	for _, r := range younger() {
		add(r, int64(r.Weight), framework.PreEnqueue, framework.QueueSort, framework.PreFilter, framework.Filter, framework.PostFilter,
			framework.PreScore, framework.Score, framework.Reserve, framework.PreBind, framework.Bind)
	}
	out := map[string]set{"multiPoint": {Disabled: []plugin{{Name: "*"}}}}
	for point, list := range byPoint {
		out[point] = set{Enabled: list}
	}
	return out
}

// arguments are those that differ from the defaults, or might seem to be missing, by plugin.
func (p *profile) arguments() (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	var errs []error
	add := func(name string, args any) {
		of, err := asWritten(args)
		errs = append(errs, err)
		list.Content = append(list.Content, mapping("name", scalar(name), "args", of))
	}
	if p.hardWeight != 0 {
		add(rules.InterPodAffinity, map[string]any{"hardPodAffinityWeight": p.hardWeight})
	}
	if added := p.addedAffinity(); added != nil {
		add(rules.NodeAffinity, configv1.NodeAffinityArgs{AddedAffinity: added})
	}
	if p.fit != nil {
		add(rules.NodeResourcesFit, configv1.NodeResourcesFitArgs{ScoringStrategy: p.fit})
	}
	if p.spread != "" {
		add(rules.PodTopologySpread, configv1.PodTopologySpreadArgs{DefaultingType: p.spread})
	}
	return list, errors.Join(errs...)
}

// asWritten is a value as its JSON names it.
func asWritten(v any) (*yaml.Node, error) {
	text, err := sigsyaml.Marshal(v)
	if err != nil {
		return &yaml.Node{}, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return &yaml.Node{}, err
	}
	return doc.Content[0], nil
}

func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// mapping is an object with these fields, in this order; those without anything in them are left out.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1].(*yaml.Node)
		if v.Kind == yaml.SequenceNode && len(v.Content) == 0 {
			continue
		}
		n.Content = append(n.Content, scalar(pairs[i].(string)), v)
	}
	return n
}

// YAML is the configuration as a file: what became of the Policy, as comments, and then what it
// came to.
func (r *Result) YAML() ([]byte, error) {
	body, err := r.body()
	if err != nil {
		return nil, fmt.Errorf("write scheduler configuration: %w", err)
	}
	return append(r.comments(), body...), nil
}

func (r *Result) body() ([]byte, error) {
	arguments, err := r.profile.arguments()
	if err != nil {
		return nil, err
	}
	plugins, sets := &yaml.Node{Kind: yaml.MappingNode}, r.profile.sets()
	for _, point := range pointOrder() {
		var of yaml.Node
		if err := of.Encode(sets[point]); err != nil {
			return nil, err
		}
		plugins.Content = append(plugins.Content, scalar(point), &of)
	}
	extenders := &yaml.Node{Kind: yaml.SequenceNode}
	for _, e := range r.policy.Extenders {
		made, err := extender(e)
		if err != nil {
			return nil, err
		}
		extenders.Content = append(extenders.Content, made)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err = encoder.Encode(mapping(
		"apiVersion", scalar(configv1.SchemeGroupVersion.String()), "kind", scalar("KubeSchedulerConfiguration"),
		"profiles", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{mapping(
			"schedulerName", scalar(v1.DefaultSchedulerName), "plugins", plugins, "pluginConfig", arguments,
		)}},
		"extenders", extenders,
	))
	return out.Bytes(), err
}

// extender is one without a timeout that is not given.
func extender(e configv1.Extender) (*yaml.Node, error) {
	made, err := asWritten(e)
	if err != nil || e.HTTPTimeout.Duration != 0 {
		return made, err
	}
	for i := 0; i+1 < len(made.Content); i += 2 {
		if made.Content[i].Value == "httpTimeout" {
			made.Content = slices.Delete(made.Content, i, i+2)
			break
		}
	}
	return made, nil
}

// comments tell what became of each part.
func (r *Result) comments() []byte {
	var b bytes.Buffer
	what := "The Policy " + r.policy.File
	if r.policy.provider != "" {
		what = "The algorithm provider " + r.policy.provider
	}
	fmt.Fprintf(&b, "# %s as kube-scheduler 1.%d read it.\n", oneLine(what), r.minor)
	for _, part := range []string{Predicates.String(), Priorities.String(), "other"} {
		first := true
		for _, n := range r.Notes {
			if n.Part != part {
				continue
			}
			if first {
				fmt.Fprintf(&b, "#\n# %s:\n", part)
				first = false
			}
			fmt.Fprintf(&b, "#   %s\n", oneLine(n.String()))
		}
		if first && part != "other" {
			fmt.Fprintf(&b, "#\n# %s: none\n", part)
		}
	}
	fmt.Fprintf(&b, "#\n# Younger than Policy, or never named in one: %s.\n", youngerNames())
	return b.Bytes()
}

// oneLine keeps a text inside its comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Config is the configuration as in reads it, completed and checked. Of what is wrong, extenders are
// named as the Policy has them.
func (r *Result) Config(in config.Reader, changes ...config.Change) (*config.Config, error) {
	text, err := r.YAML()
	if err != nil {
		return nil, err
	}
	c, err := in.Parse(r.policy.File, text, changes...)
	if err != nil {
		return nil, r.located(err)
	}
	return c, nil
}

// located puts the Policy's lines in the place of those of a text that nobody has seen.
func (r *Result) located(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []error
		for _, e := range joined.Unwrap() {
			list = append(list, r.located(e))
		}
		return errors.Join(list...)
	}
	var e *config.Error
	if !errors.As(err, &e) {
		return err
	}
	moved := *e
	moved.Line = r.policy.line(e.Field)
	if moved.Line == 0 {
		moved.Problem = "translated: " + e.Problem
	}
	return &moved
}
