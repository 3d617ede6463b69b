package queue

import "slices"

// Catalogue gives the plugins of the catalogue of rules. Its package imports this one, so that main_test.go sets it.
var Catalogue func(Profiles) []Plugin

// DefaultPlugins are those of upstream's default profile.
func DefaultPlugins(profiles Profiles) []Plugin {
	return slices.DeleteFunc(Catalogue(profiles), func(p Plugin) bool { return p.Name == "CELFilter" })
}

// newOf makes a queue that knows all plugins, unless the configuration has others.
func newOf(c Config) *Queue {
	if c.Plugins == nil {
		c.Plugins = Catalogue(c.Profiles)
	}
	return New(c)
}
