package shardschedv1

// validateTraits checks what tables intern as a node's trait.
func (x *Node) validateTraits() error {
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
	if err := sortedNames("migrated_plugins", x.GetMigratedPlugins()); err != nil {
		return err
	}
	return sortedNames("zero_resources", x.GetZeroResources())
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
	if err := counters("disks", r.GetDisks()); err != nil {
		return in("volume_restrictions", err)
	}
	if err := counters("named", r.GetNamed()); err != nil {
		return in("volume_restrictions", err)
	}
	for i, m := range r.GetClaims() {
		if err := x.measure("", m, byTotal); err != nil {
			return in("volume_restrictions", at("claims", i, err))
		}
	}
	if err := x.GetVolumeLimits().Validate(); err != nil {
		return in("volume_limits", err)
	}
	if err := x.GetVolumeBinding().Validate(); err != nil {
		return in("volume_binding", err)
	}
	if err := each("volume_zones", x.GetVolumeZones()); err != nil {
		return err
	}
	return sortedNames("required_features", x.GetRequiredFeatures())
}

// counters checks a list of counters: strictly ascending.
func counters(field string, list []uint32) error {
	for i, id := range list {
		if err := counter("", id); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1] >= id {
			return at(field, i, wrong("", "expected a counter after %d, got %d", list[i-1], id))
		}
	}
	return nil
}

// Validate checks the driver, and that no more volumes are attached than there are.
func (x *DriverVolumes) Validate() error {
	if err := name("driver", x.GetDriver()); err != nil {
		return err
	}
	if err := within("volumes", x.GetVolumes(), 1, maxVolumes); err != nil {
		return err
	}
	if n := len(x.GetShared()); int64(n) > x.GetVolumes() {
		return wrong("shared", "expected at most as many as volumes, %d, got %d", x.GetVolumes(), n)
	}
	return counters("shared", x.GetShared())
}

// maxVolumes bounds the volumes of a pod.
const maxVolumes = 1 << 20

// Validate checks the drivers: sorted, each once. Absent limits are none.
func (x *VolumeLimitsQuery) Validate() error {
	list := x.GetDrivers()
	for i, d := range list {
		if err := d.Validate(); err != nil {
			return at("drivers", i, err)
		}
		if i > 0 && list[i-1].Driver >= d.Driver {
			return at("drivers", i, wrong("driver", "expected a driver after %q, got %q", short(list[i-1].Driver), short(d.Driver)))
		}
	}
	return text("missing_claim", x.GetMissingClaim(), maxMessage)
}

// Validate checks that there is one kind of affinity at the most.
func (x *CandidateVolume) Validate() error {
	if err := text("key", x.GetKey(), maxText); err != nil {
		return err
	}
	if err := text("value", x.GetValue(), maxOperand); err != nil {
		return err
	}
	switch {
	case x.GetKey() == "" && x.GetValue() != "":
		return wrong("value", "expected none without key, got %q", short(x.GetValue()))
	case x.GetKey() != "" && x.GetNodeAffinity() != nil:
		return wrong("node_affinity", "expected none with key, got one")
	}
	return in("node_affinity", x.GetNodeAffinity().Validate())
}

// Validate checks all but the volumes, which VolumeBindingQuery knows.
func (x *UnboundClaim) Validate() error {
	if int(x.GetPrebound()) > len(x.GetVolumes()) {
		return wrong("prebound", "expected at most as many as volumes, %d, got %d", len(x.GetVolumes()), x.GetPrebound())
	}
	if err := text("selected_node", x.GetSelectedNode(), maxText); err != nil {
		return err
	}
	if err := x.GetTopologies().Validate(); err != nil {
		return in("topologies", err)
	}
	return each("capacities", x.GetCapacities())
}

// Validate checks plugin and affinities.
func (x *MigratableVolume) Validate() error {
	if err := name("plugin", x.GetPlugin()); err != nil {
		return err
	}
	if err := x.GetInTree().Validate(); err != nil {
		return in("in_tree", err)
	}
	return in("csi", x.GetCsi().Validate())
}

// Validate checks that the claims name volumes that are there. An absent query asks for
// nothing.
func (x *VolumeBindingQuery) Validate() error {
	if err := each("bound", x.GetBound()); err != nil {
		return err
	}
	if err := each("volumes", x.GetVolumes()); err != nil {
		return err
	}
	for i, c := range x.GetClaims() {
		if err := c.Validate(); err != nil {
			return at("claims", i, err)
		}
		for j, v := range c.GetVolumes() {
			if int(v) >= len(x.GetVolumes()) {
				return at("claims", i, at("volumes", j, wrong("", "expected an index below %d, got %d", len(x.GetVolumes()), v)))
			}
		}
	}
	return each("migratable", x.GetMigratable())
}

// Validate checks labels and values.
func (x *ZoneRequirement) Validate() error {
	if err := name("key", x.GetKey()); err != nil {
		return err
	}
	if err := text("fallback_key", x.GetFallbackKey(), maxText); err != nil {
		return err
	}
	if len(x.GetValues()) == 0 {
		return wrong("values", "expected at least one, got none")
	}
	return sortedNames("values", x.GetValues())
}
