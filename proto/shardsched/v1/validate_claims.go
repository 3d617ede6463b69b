package shardschedv1

// Validate checks a selector. An empty one is valid: it fails the pod.
func (x *DeviceSelector) Validate() error {
	return text("expression", x.GetExpression(), maxExpression)
}

// Validate checks a question. What fails the pod is valid.
func (x *DeviceQuestion) Validate() error {
	if err := text("name", x.GetName(), maxText); err != nil {
		return err
	}
	if err := text("class", x.GetClass(), maxText); err != nil {
		return err
	}
	for _, l := range []struct {
		field string
		list  []*DeviceSelector
	}{{"class_selectors", x.GetClassSelectors()}, {"selectors", x.GetSelectors()}} {
		if err := selectors(l.field, l.list); err != nil {
			return err
		}
	}
	if m := x.GetMode(); m < 0 || m > DeviceMode_DEVICE_MODE_ALL {
		return wrong("mode", "expected a known mode, got %s", m.String())
	}
	if err := text("unknown_mode", x.GetUnknownMode(), maxText); err != nil {
		return err
	}
	if err := natural("count", x.GetCount()); err != nil {
		return err
	}
	if err := atMost("tolerations", len(x.GetTolerations()), MaxDeviceParts); err != nil {
		return err
	}
	if err := each("tolerations", x.GetTolerations()); err != nil {
		return err
	}
	return in("capacity", sortedAmounts("amounts", x.GetCapacity().GetAmounts()))
}

func selectors(field string, list []*DeviceSelector) error {
	if err := atMost(field, len(list), MaxDeviceParts); err != nil {
		return err
	}
	return each(field, list)
}

// Validate checks that there is one question, or alternatives.
func (x *DeviceRequest) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if (x.GetExactly() == nil) == (len(x.GetFirstAvailable()) == 0) {
		return wrong("exactly", "expected either exactly or first_available")
	}
	if err := x.GetExactly().Validate(); err != nil {
		return in("exactly", err)
	}
	if err := atMost("first_available", len(x.GetFirstAvailable()), MaxDeviceParts); err != nil {
		return err
	}
	for i, q := range x.GetFirstAvailable() {
		if err := q.Validate(); err != nil {
			return at("first_available", i, err)
		}
		if q.GetName() == "" {
			return at("first_available", i, wrong("name", "expected a value, got none"))
		}
	}
	return nil
}

// Validate checks the names.
func (x *DeviceConstraint) Validate() error {
	if err := atMost("requests", len(x.GetRequests()), MaxDeviceParts); err != nil {
		return err
	}
	if err := names("requests", x.GetRequests()); err != nil {
		return err
	}
	switch c := x.GetOf().(type) {
	case *DeviceConstraint_MatchAttribute:
		return name("match_attribute", c.MatchAttribute)
	case *DeviceConstraint_DistinctAttribute:
		return name("distinct_attribute", c.DistinctAttribute)
	}
	return nil
}

// Validate checks requests and constraints.
func (x *DeviceClaim) Validate() error {
	if err := atMost("requests", len(x.GetRequests()), MaxDeviceParts); err != nil {
		return err
	}
	if err := each("requests", x.GetRequests()); err != nil {
		return err
	}
	if err := atMost("constraints", len(x.GetConstraints()), MaxDeviceParts); err != nil {
		return err
	}
	return each("constraints", x.GetConstraints())
}

// Validate checks where a claim's devices can be used.
func (x *AllocatedClaim) Validate() error { return in("selector", x.GetSelector().Validate()) }

// Validate checks a resource and its class.
func (x *MappedResource) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := text("class", x.GetClass(), maxText); err != nil {
		return err
	}
	if err := selectors("class_selectors", x.GetClassSelectors()); err != nil {
		return err
	}
	return selectors("scored_selectors", x.GetScoredSelectors())
}

// Validate checks the columns.
func (x *ContainerResources) Validate() error {
	if err := atMost("names", len(x.GetNames()), MaxDeviceParts); err != nil {
		return err
	}
	if err := sortedNames("names", x.GetNames()); err != nil {
		return err
	}
	if len(x.GetAmounts()) != len(x.GetNames()) {
		return wrong("amounts", "expected as many as names, %d, got %d", len(x.GetNames()), len(x.GetAmounts()))
	}
	for i, n := range x.GetAmounts() {
		if err := natural("", n); err != nil {
			return at("amounts", i, err)
		}
	}
	return nil
}

// Validate checks resources and containers. An absent query asks for nothing.
func (x *ExtendedResourcesQuery) Validate() error {
	list := x.GetResources()
	if err := atMost("resources", len(list), MaxMappedResources); err != nil {
		return err
	}
	for i, r := range list {
		if err := r.Validate(); err != nil {
			return at("resources", i, err)
		}
		if i > 0 && list[i-1].Name >= r.Name {
			return at("resources", i, after(list[i-1].Name, r.Name))
		}
	}
	if err := atMost("containers", len(x.GetContainers()), MaxDeviceParts); err != nil {
		return err
	}
	return each("containers", x.GetContainers())
}

// Validate checks the claims. An absent query asks for nothing.
func (x *ResourceClaimsQuery) Validate() error {
	if err := atMost("claims", len(x.GetClaims()), MaxClaims); err != nil {
		return err
	}
	if err := each("claims", x.GetClaims()); err != nil {
		return err
	}
	if err := atMost("allocated", len(x.GetAllocated()), MaxClaims); err != nil {
		return err
	}
	if err := each("allocated", x.GetAllocated()); err != nil {
		return err
	}
	if err := x.GetExtended().Validate(); err != nil {
		return in("extended", err)
	}
	return within("allocated_score", x.GetAllocatedScore(), 0, maxInt32)
}
