package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/expression"
)

// celProfile is what a profile's CELFilter and CELScore ask.
type celProfile struct {
	filters, scores []celExpression
	normalisation   pb.CelNormalisation
	// reads is what the expressions read of a pod: pods that are alike there are alike to them.
	reads []expression.Read
	// annotations are those of nodes that are read, sorted.
	annotations []string
	// readsPods tells that a filter reads what the pods of a node add up to.
	readsPods bool
	// readsRequests tells that an expression reads what a pod requests: then sizes of a pod share no outline.
	readsRequests bool
}

// Expressions are the names of the expressions of CELFilter or CELScore, in their order; none of another plugin.
func (p *Profile) Expressions(plugin string) (names []string) {
	if p.cel == nil {
		return nil
	}
	var list []celExpression
	switch plugin {
	case "CELFilter":
		list = p.cel.filters
	case "CELScore":
		list = p.cel.scores
	}
	for _, e := range list {
		names = append(names, e.name)
	}
	return names
}

// celExpression is an expression of a profile.
type celExpression struct {
	template *expression.Template
	name     string
	message  string
	ignore   bool
	weight   int64
}

// setCEL takes the expressions of the plugins that are in use.
func (p *Profile) setCEL(c *ProfileConfig) error {
	x := &celProfile{normalisation: pb.CelNormalisation_CEL_NORMALISATION_NONE}
	switch c.CELScore.Normalize {
	case NormalizeHighest:
		x.normalisation = pb.CelNormalisation_CEL_NORMALISATION_HIGHEST
	case NormalizeLowest:
		x.normalisation = pb.CelNormalisation_CEL_NORMALISATION_LOWEST
	}
	if p.FiltersBy(pb.Plugin_PLUGIN_CEL_FILTER) {
		for i, e := range c.CELFilter.Expressions {
			made, err := x.compile(e.Name, e.Expression, expression.Filter)
			if err != nil {
				return fmt.Errorf("CELFilter: expressions[%d].expression: %w", i, err)
			}
			made.message, made.ignore = e.Message, e.FailurePolicy == FailurePolicyIgnore
			x.filters = append(x.filters, made)
			for _, r := range made.template.NodeReads() {
				x.readsPods = x.readsPods || r.Field == "requested" || r.Field == "free" || r.Field == "pods"
			}
		}
	}
	if p.scoresBy(pb.Plugin_PLUGIN_CEL_SCORE) {
		for i, e := range c.CELScore.Expressions {
			made, err := x.compile(e.Name, e.Expression, expression.Score)
			if err != nil {
				return fmt.Errorf("CELScore: expressions[%d].expression: %w", i, err)
			}
			if e.Weight != nil {
				made.weight = int64(*e.Weight)
			}
			x.scores = append(x.scores, made)
		}
	}
	if len(x.filters) > pb.MaxCelExpressions || len(x.scores) > pb.MaxCelExpressions {
		return fmt.Errorf("expressions: expected at most %d", pb.MaxCelExpressions)
	}
	if len(x.filters)+len(x.scores) == 0 {
		return nil
	}
	slices.SortFunc(x.reads, func(a, b expression.Read) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Key, b.Key), compareBools(a.Keyed, b.Keyed))
	})
	x.reads = slices.Compact(x.reads)
	slices.Sort(x.annotations)
	x.annotations = slices.Compact(x.annotations)
	p.cel = x
	return nil
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (x *celProfile) compile(name, text string, kind expression.Kind) (celExpression, error) {
	t, err := expression.Compile(text, kind)
	if err != nil {
		return celExpression{}, err
	}
	x.reads = append(x.reads, t.PodReads()...)
	x.readsRequests = x.readsRequests || slices.ContainsFunc(t.PodReads(), func(r expression.Read) bool {
		return slices.Contains([]string{"requests", "containers", "initContainers"}, r.Field)
	})
	for _, r := range t.NodeReads() {
		if r.Field == "annotations" {
			x.annotations = append(x.annotations, r.Key)
		}
	}
	return celExpression{template: t, name: name, weight: 1}, nil
}

// NodeAnnotations are the annotations of nodes that the profile's expressions read, sorted.
func (p *Profile) NodeAnnotations() []string {
	if p.cel == nil {
		return nil
	}
	return slices.Clone(p.cel.annotations)
}

// NodeAnnotations are the annotations of nodes that expressions of any profile read, sorted.
func NodeAnnotations(profiles map[string]*Profile) []string {
	all := map[string]bool{}
	for _, p := range profiles {
		for _, key := range p.NodeAnnotations() {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// WantsWhole tells whether expressions read of pods what no rule does.
func (p *Profile) WantsWhole() bool {
	return p.cel != nil && slices.ContainsFunc(p.cel.reads, func(r expression.Read) bool {
		return slices.Contains([]string{"annotations", "owners", "priorityClassName", "serviceAccountName", "runtimeClassName", "os"},
			r.Field)
	})
}

// CELReadsPods tells whether an expression of CELFilter reads what the pods of a node add up
// to: then a node may pass once one of them is gone.
func (p *Profile) CELReadsPods() bool { return p.cel != nil && p.cel.readsPods }

// Annotations are those of the node's annotations that keys names, which are sorted.
func Annotations(n *v1.Node, keys []string) []*pb.Label {
	var out []*pb.Label
	for _, key := range keys {
		if v, ok := n.Annotations[key]; ok && key != "" && usable(key) && usable(v) {
			out = append(out, &pb.Label{Key: key, Value: v})
		}
	}
	return out
}

// celPlan is what the expressions of a profile come to once the pod is known.
type celPlan struct {
	query    *pb.CelQuery // nil: nothing is left to ask
	rejected *Rejection
}

// planCEL is the PreFilter and PreScore that CELFilter and CELScore would have.
func (o *outline) planCEL(p *v1.Pod) {
	o.cel, o.celErr = compileCEL(p, o.prof)
	o.refuse(pb.Plugin_PLUGIN_CEL_FILTER, o.cel.rejected, nil)
}

// compileCEL answers what expressions ask of the pod. Those that are decided by that are not
// asked of nodes.
func compileCEL(p *v1.Pod, prof *Profile) (celPlan, error) {
	if prof.cel == nil {
		return celPlan{}, nil
	}
	asked := celPod(p)
	q := &pb.CelQuery{Language: expression.Fingerprint(), Normalisation: prof.cel.normalisation}
	for _, e := range prof.cel.filters {
		residual, err := e.template.Residual(e.template.Ask(asked))
		if err != nil {
			return celPlan{}, fmt.Errorf("expression %q: %w", e.name, err)
		}
		if o, decided := residual.Constant(); decided {
			if o.Failed == "" && !o.Pass || o.Failed != "" && !e.ignore {
				return celPlan{rejected: e.rejection(o)}, nil
			}
			continue
		}
		q.Filters = append(q.Filters, &pb.CelExpression{
			Name: e.name, Text: e.template.Text(), Arguments: residual.Encode(), Reason: e.message, IgnoreFailure: e.ignore,
		})
	}
	for _, e := range prof.cel.scores {
		residual, err := e.template.Residual(e.template.Ask(asked))
		if err != nil {
			return celPlan{}, fmt.Errorf("expression %q: %w", e.name, err)
		}
		q.Scores = append(q.Scores, &pb.CelExpression{Name: e.name, Text: e.template.Text(), Arguments: residual.Encode(),
			Weight: e.weight})
	}
	if len(q.Filters)+len(q.Scores) == 0 {
		q = nil
	}
	return celPlan{query: q}, nil
}

// rejection is that of a pod that no node can help.
func (e *celExpression) rejection(o expression.Outcome) *Rejection {
	text := e.message
	switch {
	case o.Failed != "":
		text = fmt.Sprintf("CEL expression %q failed: %s", e.name, o.Failed)
	case text == "":
		text = fmt.Sprintf("pod didn't match CEL expression %q", e.name)
	}
	plugin := scorer.PluginName(pb.Plugin_PLUGIN_CEL_FILTER)
	return &Rejection{Plugins: []string{plugin}, Message: text, Unresolvable: true}
}

// ExpressionPod is a pod as expressions read it.
func ExpressionPod(p *v1.Pod) *expression.Pod { return celPod(tamed(p)) }

// celPod is a tamed pod as expressions read it.
func celPod(p *v1.Pod) *expression.Pod {
	out := &expression.Pod{
		Name: p.Name, Namespace: p.Namespace, UID: string(p.UID),
		Labels: usableTexts(p.Labels), Annotations: usableTexts(p.Annotations), NodeSelector: usableTexts(p.Spec.NodeSelector),
		Priority: int64(Priority(p)), PriorityClassName: p.Spec.PriorityClassName, SchedulerName: p.Spec.SchedulerName,
		ServiceAccountName: p.Spec.ServiceAccountName, HostNetwork: p.Spec.HostNetwork,
		Requests:   celAmounts(Requests(p)),
		Containers: celContainers(p.Spec.Containers), InitContainers: celContainers(p.Spec.InitContainers),
	}
	if v := p.Spec.PreemptionPolicy; v != nil {
		out.PreemptionPolicy = string(*v)
	}
	if v := p.Spec.RuntimeClassName; v != nil {
		out.RuntimeClassName = *v
	}
	if v := p.Spec.OS; v != nil {
		out.OS = string(v.Name)
	}
	for _, o := range p.OwnerReferences {
		out.Owners = append(out.Owners,
			expression.Owner{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Controller: o.Controller != nil && *o.Controller})
	}
	for _, t := range p.Spec.Tolerations {
		out.Tolerations = append(out.Tolerations,
			expression.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

func celContainers(list []v1.Container) []expression.Container {
	var out []expression.Container
	for i := range list {
		c := &list[i]
		out = append(out, expression.Container{Name: c.Name, Image: c.Image, Requests: celAmounts(c.Resources.Requests)})
	}
	return out
}

// celAmounts are exact up to a billionth; more than there can be is the most.
func celAmounts(list v1.ResourceList) map[string]expression.Quantity {
	out := make(map[string]expression.Quantity, len(list))
	for name, q := range list {
		v, err := expression.ParseQuantity(q.String())
		if err != nil {
			v = expression.Whole(MaxAmount)
		}
		out[string(name)] = v
	}
	return out
}

// usableTexts leaves out what is too long for a row.
func usableTexts(m map[string]string) map[string]string {
	for k, v := range m {
		if !usable(k) || !usable(v) {
			m = maps.Clone(m)
			maps.DeleteFunc(m, func(k, v string) bool { return !usable(k) || !usable(v) })
			break
		}
	}
	return m
}

// cel writes what a profile's expressions read of a pod.
func (s *signature) cel(p *v1.Pod, prof *Profile) {
	if prof.cel == nil {
		return
	}
	for _, r := range prof.cel.reads {
		switch r.Field {
		case "name":
			s.text(p.Name)
		case "namespace":
			s.text(p.Namespace)
		case "uid":
			s.text(string(p.UID))
		case "labels":
			s.texts(p.Labels, r)
		case "annotations":
			s.texts(p.Annotations, r)
		case "owners":
			s.count(len(p.OwnerReferences))
			for _, o := range p.OwnerReferences {
				s.text(o.APIVersion)
				s.text(o.Kind)
				s.text(o.Name)
				s.flag(o.Controller != nil && *o.Controller)
			}
		case "priority":
			s.text(fmt.Sprint(Priority(p)))
		case "priorityClassName":
			s.text(p.Spec.PriorityClassName)
		case "preemptionPolicy":
			s.flag(p.Spec.PreemptionPolicy != nil)
			if v := p.Spec.PreemptionPolicy; v != nil {
				s.text(string(*v))
			}
		case "schedulerName":
			s.text(p.Spec.SchedulerName)
		case "serviceAccountName":
			s.text(p.Spec.ServiceAccountName)
		case "runtimeClassName":
			s.flag(p.Spec.RuntimeClassName != nil)
			if v := p.Spec.RuntimeClassName; v != nil {
				s.text(*v)
			}
		case "os":
			s.flag(p.Spec.OS != nil)
			if v := p.Spec.OS; v != nil {
				s.text(string(v.Name))
			}
		case "hostNetwork":
			s.flag(p.Spec.HostNetwork)
		case "containers", "initContainers":
			// What containers ask for, and their images, stand in every signature.
			for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for i := range list {
					s.text(list[i].Name)
				}
			}
		}
		// So do nodeSelector, tolerations and requests.
	}
}

// texts writes a map, or the one entry that is read.
func (s *signature) texts(m map[string]string, r expression.Read) {
	if r.Keyed {
		v, ok := m[r.Key]
		s.flag(ok)
		s.text(v)
		return
	}
	s.names = s.names[:0]
	for k := range m {
		s.names = append(s.names, k)
	}
	slices.Sort(s.names)
	s.count(len(s.names))
	for _, k := range s.names {
		s.text(k)
		s.text(m[k])
	}
}
