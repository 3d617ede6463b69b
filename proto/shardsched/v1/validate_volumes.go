package shardschedv1

// validateVolumesAndFeatures checks declared features and volume limits.
func (x *Node) validateVolumesAndFeatures() error {
	if err := sortedNames("declared_features", x.GetDeclaredFeatures()); err != nil {
		return err
	}
	list := x.GetVolumeLimits()
	for i, l := range list {
		if err := l.Validate(); err != nil {
			return at("volume_limits", i, err)
		}
		if i > 0 && list[i-1].Driver >= l.Driver {
			return at("volume_limits", i, wrong("driver", "expected a driver after %q, got %q", short(list[i-1].Driver), short(l.Driver)))
		}
	}
	return nil
}

// Validate checks driver and number.
func (x *VolumeLimit) Validate() error {
	if err := name("driver", x.GetDriver()); err != nil {
		return err
	}
	return natural("volumes", x.GetVolumes())
}

// volumePresence checks that no volume plugin lacks the part of the query that it reads.
func (x *Query) volumePresence(filters plugins) error {
	if x.GetVolumeRestrictions() == nil && filters.has(Plugin_PLUGIN_VOLUME_RESTRICTIONS) {
		return wrong("volume_restrictions", "expected for VolumeRestrictions, got none")
	}
	if x.GetVolumeLimits() == nil && filters.has(Plugin_PLUGIN_NODE_VOLUME_LIMITS) {
		return wrong("volume_limits", "expected for NodeVolumeLimits, got none")
	}
	if x.GetVolumeBinding() == nil && filters.has(Plugin_PLUGIN_VOLUME_BINDING) {
		return wrong("volume_binding", "expected for VolumeBinding, got none")
	}
	return nil
}

// validateVolumes checks what the volume plugins and NodeDeclaredFeatures read.
func (x *Query) validateVolumes() error {
	r := x.GetVolumeRestrictions()
	for i, id := range r.GetDisks() {
		if err := counter("", id); err != nil {
			return in("volume_restrictions", at("disks", i, err))
		}
	}
	for i, m := range r.GetClaims() {
		if err := x.measure("", m, byTotal); err != nil {
			return in("volume_restrictions", at("claims", i, err))
		}
	}
	return sortedNames("required_features", x.GetRequiredFeatures())
}
