package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// arrange puts the plugins into the order of each point, and checks them: first each point's own
// set, then the multi-point's share, then what a profile must have.
func (p *Profile) arrange(c *ProfileConfig) error {
	var err error
	for at := range NumPoints {
		if p.lists[at], err = p.own(at, at.Of(&c.Plugins)); err != nil {
			return err
		}
	}
	for at := range NumPoints {
		if p.lists[at], err = p.expand(at, p.lists[at], at.Of(&c.Plugins), &c.Plugins.MultiPoint); err != nil {
			return err
		}
	}
	if n := len(p.lists[QueueSort]); n != 1 {
		return fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", c.Name, n)
	}
	if len(p.lists[Bind]) == 0 {
		return fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", c.Name)
	}
	if len(p.lists[PlacementGenerate]) > 1 {
		return fmt.Errorf("at most one placement generate plugin is allowed for profile with scheduler name %q", c.Name)
	}
	if p.weights, err = p.weigh(Score, &c.Plugins); err != nil {
		return fmt.Errorf("score plugins: %w", err)
	}
	if err := p.weighed(Score, "score", p.weights); err != nil {
		return err
	}
	placement, err := p.weigh(PlacementScore, &c.Plugins)
	if err != nil {
		return fmt.Errorf("placement score plugins: %w", err)
	}
	return p.weighed(PlacementScore, "placement score", placement)
}

// own is the plugins of a point's own set, each of which must exist and have the point, and stand
// there once.
func (p *Profile) own(point Point, set *configv1.PluginSet) ([]string, error) {
	var list []string
	for _, e := range set.Enabled {
		plugin, ok := p.plugins[e.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s %q does not exist", point.Kind(), e.Name)
		case !at(plugin, point):
			return nil, fmt.Errorf("plugin %q does not extend %s plugin", e.Name, point.Kind())
		case slices.Contains(list, e.Name):
			return nil, fmt.Errorf("plugin %q already registered as %q", e.Name, point.Kind())
		}
		list = append(list, e.Name)
	}
	return list, nil
}

// expand adds the multi-point's plugins to a point's own: those of its own that the multi-point has
// too come first, then the multi-point's, then the rest of its own.
func (p *Profile) expand(point Point, own []string, set, multi *configv1.PluginSet) ([]string, error) {
	if listed(set.Disabled, "*") {
		return own, nil
	}
	var both, inherited []string
	for _, e := range multi.Enabled {
		plugin, ok := p.plugins[e.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s %q does not exist", point.Kind(), e.Name)
		case !at(plugin, point) || listed(set.Disabled, e.Name):
		case slices.Contains(own, e.Name):
			both = append(both, e.Name)
		case slices.Contains(inherited, e.Name):
			return nil, fmt.Errorf("plugin %q already registered as %q", e.Name, point.Kind())
		default:
			inherited = append(inherited, e.Name)
		}
	}
	var first, rest []string
	for _, name := range own {
		if slices.Contains(both, name) {
			first = append(first, name)
		} else {
			rest = append(rest, name)
		}
	}
	return slices.Concat(first, inherited, rest), nil
}

func listed(set []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(set, func(e configv1.Plugin) bool { return e.Name == name })
}

// weigh gives the weights at a point where they count, 1 where none is given. The point's own set
// goes before the multi-point; those of plugins that are off at the point count towards the limit.
func (p *Profile) weigh(point Point, s *configv1.Plugins) (map[string]int64, error) {
	weights := map[string]int64{}
	var total int64
	for _, e := range slices.Concat(point.Of(s).Enabled, s.MultiPoint.Enabled) {
		plugin, ok := p.plugins[e.Name]
		if !ok || !at(plugin, point) {
			continue
		}
		if _, ok := weights[e.Name]; ok {
			continue
		}
		weight := int64(1)
		if e.Weight != nil && *e.Weight != 0 {
			weight = int64(*e.Weight)
		}
		if weight < 0 {
			return nil, fmt.Errorf("weight %d of plugin %q: must not be negative", weight, e.Name)
		}
		if weight*fwk.MaxScore > fwk.MaxTotalScore-total {
			return nil, errors.New("total score of Score plugins could overflow")
		}
		total += weight * fwk.MaxScore
		weights[e.Name] = weight
	}
	return weights, nil
}

// weighed checks that plugins are called what the configuration calls them, for weights go by that.
func (p *Profile) weighed(point Point, what string, weights map[string]int64) error {
	for _, name := range p.lists[point] {
		if called := p.plugins[name].Name(); weights[called] == 0 {
			return fmt.Errorf("%s plugin %q is not configured with weight", what, called)
		}
	}
	return nil
}

// eventsOf is how a plugin tells what it waits for; nil: it can turn no pod away, or it is built
// in.
func eventsOf(plugin fwk.Plugin) fwk.EnqueueExtensions {
	if _, ours := plugin.(*builtIn); ours {
		return nil
	}
	switch plugin.(type) {
	case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
	default:
		return nil
	}
	if e, ok := plugin.(fwk.EnqueueExtensions); ok {
		return e
	}
	return everyEvent(plugin.Name())
}

// everyEvent is a plugin that waits for all events.
type everyEvent string

// Name is part of fwk.Plugin.
func (e everyEvent) Name() string { return string(e) }

// EventsToRegister is part of fwk.EnqueueExtensions.
func (e everyEvent) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	var out []fwk.ClusterEventWithHint
	for _, r := range []fwk.EventResource{
		fwk.Pod, fwk.Node, fwk.PersistentVolume, fwk.PersistentVolumeClaim, fwk.CSINode, fwk.CSIDriver,
		fwk.CSIStorageCapacity, fwk.StorageClass, fwk.ResourceClaim, fwk.DeviceClass,
	} {
		out = append(out, fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: r, ActionType: fwk.All}})
	}
	return out, nil
}
