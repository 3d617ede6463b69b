package shardschedv1

// Validate checks a toleration. An empty key is every key.
func (x *Toleration) Validate() error {
	if err := text("key", x.GetKey(), maxText); err != nil {
		return err
	}
	if err := member("operator", x.GetOperator(), TolerationOperator_TOLERATION_OPERATOR_EXISTS); err != nil {
		return err
	}
	if err := text("value", x.GetValue(), maxOperand); err != nil {
		return err
	}
	if e := x.GetEffect(); e < 0 || e > TaintEffect_TAINT_EFFECT_NO_EXECUTE {
		return wrong("effect", "expected a known effect, got %s", e.String())
	}
	return nil
}

// Validate checks that the operator has the operands that it needs, and no other.
func (x *LabelRequirement) Validate() error {
	if err := name("key", x.GetKey()); err != nil {
		return err
	}
	op := x.GetOperator()
	if err := member("operator", op, SelectorOperator_SELECTOR_OPERATOR_LT); err != nil {
		return err
	}
	if op == SelectorOperator_SELECTOR_OPERATOR_IN || op == SelectorOperator_SELECTOR_OPERATOR_NOT_IN {
		if len(x.GetValues()) == 0 {
			return wrong("values", "expected at least one for %s, got none", op.String())
		}
		for i, v := range x.GetValues() {
			if err := text("", v, maxOperand); err != nil {
				return at("values", i, err)
			}
		}
	} else if len(x.GetValues()) > 0 {
		return wrong("values", "expected none for %s, got %d", op.String(), len(x.GetValues()))
	}
	if op < SelectorOperator_SELECTOR_OPERATOR_GT && x.GetBound() != 0 {
		return wrong("bound", "expected 0 for %s, got %d", op.String(), x.GetBound())
	}
	return nil
}

// Validate checks operator and name.
func (x *NameRequirement) Validate() error {
	if err := member("operator", x.GetOperator(), SelectorOperator_SELECTOR_OPERATOR_NOT_IN); err != nil {
		return err
	}
	return text("name", x.GetName(), maxOperand)
}

// Validate checks that there is a requirement, and all of them.
func (x *SelectorTerm) Validate() error {
	if len(x.GetLabels())+len(x.GetNames()) == 0 {
		return wrong("", "expected at least one requirement, got none")
	}
	if err := each("labels", x.GetLabels()); err != nil {
		return err
	}
	return each("names", x.GetNames())
}

// Validate checks the terms. A selector without a term matches nothing and is valid.
func (x *NodeSelector) Validate() error { return each("terms", x.GetTerms()) }

// Validate checks weight and term.
func (x *PreferredTerm) Validate() error {
	if err := within("weight", int64(x.GetWeight()), 1, 100); err != nil {
		return err
	}
	return in("term", x.GetTerm().Validate())
}

// Validate checks all parts of a node affinity.
func (x *NodeAffinityQuery) Validate() error {
	if err := x.GetAdded().Validate(); err != nil {
		return in("added", err)
	}
	if err := sortedLabels("node_selector", x.GetNodeSelector()); err != nil {
		return err
	}
	if err := x.GetRequired().Validate(); err != nil {
		return in("required", err)
	}
	return each("preferred", x.GetPreferred())
}

// Validate checks that there are names and who narrowed to them.
func (x *NameSet) Validate() error {
	if len(x.GetNames()) == 0 {
		return wrong("names", "expected at least one, got none")
	}
	if err := sortedNames("names", x.GetNames()); err != nil {
		return err
	}
	if len(x.GetPlugins()) == 0 {
		return wrong("plugins", "expected at least one, got none")
	}
	return sortedNames("plugins", x.GetPlugins())
}

// Validate checks name, weight and request.
func (x *ScoredResource) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := within("weight", x.GetWeight(), 1, 100); err != nil {
		return err
	}
	return natural("request", x.GetRequest())
}

// Validate checks both coordinates.
func (x *ShapePoint) Validate() error {
	if err := within("utilization", x.GetUtilization(), 0, 100); err != nil {
		return err
	}
	return within("score", x.GetScore(), 0, 100)
}

// Validate checks requests and strategy. The strategy may be unspecified where nothing is
// scored; Query.Validate tells.
func (x *FitQuery) Validate() error {
	if err := x.GetRequests().Validate(); err != nil {
		return in("requests", err)
	}
	kind := x.GetScoringType()
	if kind < 0 || kind > ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO {
		return wrong("scoring_type", "expected a known strategy, got %s", kind.String())
	}
	if err := each("scored", x.GetScored()); err != nil {
		return err
	}
	shape := x.GetShape()
	for i, p := range shape {
		if err := p.Validate(); err != nil {
			return at("shape", i, err)
		}
		if i > 0 && shape[i-1].Utilization >= p.Utilization {
			return at("shape", i, wrong("utilization", "expected more than %d, got %d", shape[i-1].Utilization, p.Utilization))
		}
	}
	if kind == ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO && len(shape) == 0 {
		return wrong("shape", "expected at least one point for %s, got none", kind.String())
	}
	return nil
}

// Validate checks the resources.
func (x *BalancedQuery) Validate() error { return each("scored", x.GetScored()) }

// Validate checks name and size.
func (x *ImageTerm) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	return natural("scaled_bytes", x.GetScaledBytes())
}

// Validate checks the images and that there is a container.
func (x *ImageQuery) Validate() error {
	if err := each("images", x.GetImages()); err != nil {
		return err
	}
	return within("containers", x.GetContainers(), 1, 1<<20)
}

// Validate checks that the plugin scores, and its weight.
func (x *ScoreWeight) Validate() error {
	if p := x.GetPlugin(); !p.Scores() {
		return wrong("plugin", "expected a plugin that scores, got %s", p.String())
	}
	return within("weight", x.GetWeight(), 1, maxWeight)
}

// Validate checks a query: its plugins, and that each has what it reads.
func (x *Query) Validate() error {
	if x.GetClassId() == 0 {
		return wrong("class_id", "expected an id, got 0")
	}
	filters, err := x.filterSet()
	if err != nil {
		return err
	}
	scores, err := x.scoreSet()
	if err != nil {
		return err
	}
	if err := x.validatePresence(filters, scores); err != nil {
		return err
	}
	return x.validateParts()
}

// plugins is a set of plugins, a bit for each.
type plugins uint64

func (s plugins) has(p Plugin) bool { return s&(1<<p) != 0 }

// Filters tells whether tables filter by a plugin.
func (x Plugin) Filters() bool {
	switch x {
	case Plugin_PLUGIN_UNSPECIFIED, Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Plugin_PLUGIN_IMAGE_LOCALITY, Plugin_PLUGIN_CEL_SCORE:
		return false
	}
	_, known := Plugin_name[int32(x)]
	return known
}

// Scores tells whether tables score by a plugin.
func (x Plugin) Scores() bool {
	switch x {
	case Plugin_PLUGIN_TAINT_TOLERATION, Plugin_PLUGIN_NODE_AFFINITY, Plugin_PLUGIN_NODE_RESOURCES_FIT,
		Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Plugin_PLUGIN_IMAGE_LOCALITY,
		Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, Plugin_PLUGIN_INTER_POD_AFFINITY, Plugin_PLUGIN_CEL_SCORE, Plugin_PLUGIN_DYNAMIC_RESOURCES:
		return true
	}
	return false
}

// filterSet checks Query.filters and returns them.
func (x *Query) filterSet() (plugins, error) {
	var set plugins
	for i, p := range x.GetFilters() {
		if !p.Filters() {
			return 0, at("filters", i, wrong("", "expected a plugin that filters, got %s", p.String()))
		}
		if set.has(p) {
			return 0, at("filters", i, wrong("", "expected each plugin once, got %s again", p.String()))
		}
		set |= 1 << p
	}
	return set, nil
}

// scoreSet checks Query.scores and returns their plugins.
func (x *Query) scoreSet() (plugins, error) {
	var set plugins
	total := int64(0)
	for i, s := range x.GetScores() {
		if err := s.Validate(); err != nil {
			return 0, at("scores", i, err)
		}
		if set.has(s.Plugin) {
			return 0, at("scores", i, wrong("plugin", "expected each plugin once, got %s again", s.Plugin.String()))
		}
		if total > maxWeight-s.Weight {
			return 0, at("scores", i, wrong("weight", "expected the weights to add up to at most %d", int64(maxWeight)))
		}
		set |= 1 << s.Plugin
		total += s.Weight
	}
	return set, nil
}

// validatePresence checks that no plugin lacks the part of the query that it reads.
func (x *Query) validatePresence(filters, scores plugins) error {
	used := filters | scores
	if x.GetNodeAffinity() == nil && used.has(Plugin_PLUGIN_NODE_AFFINITY) {
		return wrong("node_affinity", "expected for NodeAffinity, got none")
	}
	if x.GetFit() == nil && used.has(Plugin_PLUGIN_NODE_RESOURCES_FIT) {
		return wrong("fit", "expected for NodeResourcesFit, got none")
	}
	if x.GetFit().GetScoringType() == 0 && scores.has(Plugin_PLUGIN_NODE_RESOURCES_FIT) {
		return wrong("fit.scoring_type", "expected a strategy for NodeResourcesFit to score by, got none")
	}
	if x.GetBalanced() == nil && scores.has(Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION) {
		return wrong("balanced", "expected for NodeResourcesBalancedAllocation, got none")
	}
	if x.GetImages() == nil && scores.has(Plugin_PLUGIN_IMAGE_LOCALITY) {
		return wrong("images", "expected for ImageLocality, got none")
	}
	if x.GetSpread() == nil && used.has(Plugin_PLUGIN_POD_TOPOLOGY_SPREAD) {
		return wrong("spread", "expected for PodTopologySpread, got none")
	}
	if x.GetInterPodAffinity() == nil && used.has(Plugin_PLUGIN_INTER_POD_AFFINITY) {
		return wrong("inter_pod_affinity", "expected for InterPodAffinity, got none")
	}
	if x.GetResourceClaims() == nil && used.has(Plugin_PLUGIN_DYNAMIC_RESOURCES) {
		return wrong("resource_claims", "expected for DynamicResources, got none")
	}
	if err := x.celPresence(filters, scores); err != nil {
		return err
	}
	return x.volumePresence(filters)
}

// validateParts checks what the plugins read.
func (x *Query) validateParts() error {
	if x.GetNarrowed() != nil {
		if err := x.GetNarrowed().Validate(); err != nil {
			return in("narrowed", err)
		}
	}
	if x.GetWithin() != nil {
		if err := x.GetWithin().Validate(); err != nil {
			return in("within", err)
		}
	}
	if err := text("node_name", x.GetNodeName(), maxText); err != nil {
		return err
	}
	if err := each("tolerations", x.GetTolerations()); err != nil {
		return err
	}
	if err := x.GetNodeAffinity().Validate(); err != nil {
		return in("node_affinity", err)
	}
	if err := each("host_ports", x.GetHostPorts()); err != nil {
		return err
	}
	if err := x.GetFit().Validate(); err != nil {
		return in("fit", err)
	}
	if err := x.GetBalanced().Validate(); err != nil {
		return in("balanced", err)
	}
	if x.GetImages() != nil {
		if err := x.GetImages().Validate(); err != nil {
			return in("images", err)
		}
	}
	if err := x.GetCel().Validate(); err != nil {
		return in("cel", err)
	}
	if err := x.validateGroups(); err != nil {
		return err
	}
	if err := x.GetResourceClaims().Validate(); err != nil {
		return in("resource_claims", err)
	}
	return x.validateVolumes()
}
