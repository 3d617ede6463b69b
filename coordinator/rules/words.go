package rules

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// Words tell people what a plugin refuses, with the values concerned.
type Words struct {
	// Says are the beginnings of the plugin's reasons, as upstream words them.
	Says []string
	// Together: a node may have several of the reasons at once, and they are told in one.
	Together bool
	// Lacks words what a node lacks that the plugin refuses for a pod.
	Lacks func(*Refused) []string
	// Wants words what the pod wants, over all nodes that the plugin refuses with some reasons, and what would help; of a PreFilter's
	// reason, why it refuses the pod.
	Wants func(*Asked) []Want
}

// Want is what a pod wants and does not get.
type Want struct {
	// Cause is the same for pods that want alike, such as "no node has label disk=ssd". Detail has what nodes have instead, or the
	// numbers; empty: there are none.
	Cause, Detail string
	// Help is what would help.
	Help string
}

// Cluster is what words tell of the cluster beside a node. It is asked on the loop.
type Cluster interface {
	// Node is nil where there is none.
	Node(name string) *v1.Node
	PodsOn(node string) iter.Seq[*v1.Pod]
	In(namespace string) iter.Seq[*v1.Pod]
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	Volume(name string) *v1.PersistentVolume
	StorageClass(name string) *storagev1.StorageClass
	// ClaimProblem is what keeps a pod's resource claims from being looked at, in a text of the pod's own and in words that are the same
	// for pods that wait alike, and who has to do what about it; "": nothing does.
	ClaimProblem(p *v1.Pod) (text, cause, next string)
	// Refusers words the names under which a pod is refused: "plugin X", and of extenders each that has a say in the pod: "extender Y".
	Refusers(p *v1.Pod, by []string) []string
}

// Row is what the tables know of a refused node.
type Row interface {
	Shortfalls() []scorer.Shortfall
	FullDrivers() []scorer.DriverRoom
	Expressions() []scorer.ExpressionOutcome
	// Devices words what the pod's claims lack.
	Devices() []string
}

// Refused is a node that a plugin refuses for a pod.
type Refused struct {
	Pod     *v1.Pod
	Node    *v1.Node
	Profile *compile.Profile
	Class   *compile.Class
	Reasons []string
	// Unmet is the term of a plugin that looks at the whole cluster; nil: it is not known, or another plugin refuses.
	Unmet *scorer.Unmet
	Row   Row
	// Named: pods that are in the way are named, for which all of the node's are looked at.
	Named   bool
	Cluster Cluster
}

// Asked is a pod with the reasons for which a plugin refuses it nodes.
type Asked struct {
	Pod     *v1.Pod
	Profile *compile.Profile
	Reasons []string
	// Refused is how many nodes the plugin refuses for the reasons, at the most; 0: it is not known.
	Refused int
	// Judged: all nodes were judged for the pod. Then Unresolvable tells that nobody's leaving changes the refusals at hand.
	Judged, Unresolvable bool
	Nodes                *census.Census
	Cluster              Cluster
}

// Watch tells a census which of a pod's labels and requests it is to count.
func Watch(c *census.Census, p *v1.Pod, prof *compile.Profile) {
	for k, v := range p.Spec.NodeSelector {
		c.WatchLabel(k, v)
	}
	for _, t := range requiredTerms(p, prof) {
		for i := range t.MatchExpressions {
			c.WatchLabel(t.MatchExpressions[i].Key, t.MatchExpressions[i].Values...)
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c.WatchLabel(p.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	if prof != nil {
		watchDemand(c, p, prof)
	}
}

// requiredTerms are the terms of a pod's required node affinity, and of its profile's.
func requiredTerms(p *v1.Pod, prof *compile.Profile) []v1.NodeSelectorTerm {
	var out []v1.NodeSelectorTerm
	if required := requiredAffinity(p); required != nil {
		out = append(out, required.NodeSelectorTerms...)
	}
	if prof != nil && prof.AddedTerms() != nil {
		out = append(out, prof.AddedTerms().NodeSelectorTerms...)
	}
	return out
}

func requiredAffinity(p *v1.Pod) *v1.NodeSelector {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// maxWord is how many bytes of a selector, an expression or a list are shown.
const maxWord = 160

// short cuts a text that is too long to be shown.
func short(text string) string {
	if len(text) <= maxWord {
		return text
	}
	return strings.ToValidUTF8(text[:maxWord], "") + "…"
}

// requirementText words a requirement on a label as selectors are written: disk=ssd, zone in (a, b), !gpu.
func requirementText(r *v1.NodeSelectorRequirement) string {
	list := short(strings.Join(r.Values, ", "))
	switch {
	case r.Operator == v1.NodeSelectorOpIn && len(r.Values) == 1:
		return r.Key + "=" + list
	case r.Operator == v1.NodeSelectorOpIn:
		return r.Key + " in (" + list + ")"
	case r.Operator == v1.NodeSelectorOpNotIn && len(r.Values) == 1:
		return r.Key + " other than " + list
	case r.Operator == v1.NodeSelectorOpNotIn:
		return r.Key + " not in (" + list + ")"
	case r.Operator == v1.NodeSelectorOpDoesNotExist:
		return "!" + r.Key
	case r.Operator == v1.NodeSelectorOpGt:
		return r.Key + " > " + list
	case r.Operator == v1.NodeSelectorOpLt:
		return r.Key + " < " + list
	}
	return r.Key
}

// meets tells whether a label meets a requirement; one that can not be read meets none.
func meets(r *v1.NodeSelectorRequirement, value string, has bool) bool {
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case v1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case v1.NodeSelectorOpExists:
		return has
	case v1.NodeSelectorOpDoesNotExist:
		return !has
	}
	if !has || len(r.Values) != 1 {
		return false
	}
	bound, err := strconv.ParseInt(r.Values[0], 10, 64)
	got, wrong := strconv.ParseInt(value, 10, 64)
	if err != nil || wrong != nil {
		return false
	}
	return r.Operator == v1.NodeSelectorOpGt && got > bound || r.Operator == v1.NodeSelectorOpLt && got < bound
}

// labelOf words what a node has of a label.
func labelOf(n *v1.Node, key string) string {
	if value, has := n.Labels[key]; has {
		return "the node has " + key + "=" + value
	}
	return "the node has no " + key
}

// domainText words a domain: zone b, host n1, rack=r7.
func domainText(key, value string) string {
	switch key {
	case v1.LabelHostname:
		return "host " + value
	case v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone:
		return "zone " + value
	case v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion:
		return "region " + value
	}
	return key + "=" + value
}

// keyText words a topology key: zone, host, rack.
func keyText(key string) string {
	switch key {
	case v1.LabelHostname:
		return "host"
	case v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone:
		return "zone"
	case v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion:
		return "region"
	}
	return key
}

// topologyOf is the topology key of a term that is not met, and the node's domain; "": not known.
func (r *Refused) topologyOf(u *scorer.Unmet) (key, domain string) {
	q := r.Class.Query
	switch {
	case u.Domain >= 0 && u.Domain < len(q.GetDomainKeys()):
		key = q.GetDomainKeys()[u.Domain]
	case u.RowValue >= 0 && u.RowValue < len(q.GetRowValues()):
		key = q.GetRowValues()[u.RowValue].GetTopologyKey()
	}
	return key, r.Node.Labels[key]
}

// maxNamed is how many pods in the way are named.
const maxNamed = 3

// named words the pods of a node that are in the way: "shop/api-1, shop/api-2 and 4 more"; "": there are none.
func (r *Refused) named(inTheWay func(*v1.Pod) bool) string {
	var names []string
	for p := range r.Cluster.PodsOn(r.Node.Name) {
		if p.UID != r.Pod.UID && inTheWay(p) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(names)
	return listed(names)
}

// listed joins names, the first few of many.
func listed(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// valuesText words what nodes have of a label: "disk=hdd on 12, no disk on 28".
func valuesText(c *census.Census, key string) string {
	values, having, all := c.Label(key)
	var words []string
	for i, v := range values {
		if i == maxNamed {
			words = append(words, fmt.Sprintf("%d other values", len(values)-maxNamed))
			break
		}
		words = append(words, fmt.Sprintf("%s=%s on %d", key, v.Value, v.Nodes))
	}
	if !all {
		words = append(words, "more that are not listed")
	}
	if without := c.Nodes() - having; without > 0 && having > 0 {
		words = append(words, fmt.Sprintf("no %s on %d", key, without))
	} else if having == 0 {
		words = append(words, "no node has a label "+key)
	}
	return strings.Join(words, ", ")
}

// plural is a noun, of several things with an s.
func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// nodesText is a number of nodes.
func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// verb is a verb beside a number of nodes: "1 node has", "2 nodes have".
func verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// said are the reasons that begin as one of some texts.
func said(reasons []string, texts ...string) (out []string) {
	for _, r := range reasons {
		if slices.ContainsFunc(texts, func(t string) bool { return strings.HasPrefix(r, t) }) {
			out = append(out, r)
		}
	}
	return out
}

// Dictionary is the words of all plugins that have some, by name.
type Dictionary map[string]*Words

// NewDictionary makes the dictionary of the catalogue.
func NewDictionary() Dictionary {
	d := Dictionary{}
	for _, r := range All() {
		if r.Words != nil {
			d[r.Name] = r.Words
		}
	}
	return d
}

// Speaker is which of some plugins gives a reason, with its words; nil: none of them is known to.
func (d Dictionary) Speaker(reason string, plugins []string) (words *Words, plugin string) {
	for _, name := range plugins {
		if w := d[name]; w != nil && len(said([]string{reason}, w.Says...)) > 0 {
			return w, name
		}
	}
	return nil, ""
}

// Of are the words of a plugin, of several that narrow together the first's; nil: it has none.
func (d Dictionary) Of(plugin string) *Words {
	name, _, _ := strings.Cut(plugin, " ")
	return d[name]
}
