package config

import (
	"fmt"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// defaultExtenderTimeout is how long upstream waits for an extender that names no timeout.
const defaultExtenderTimeout = 5 * time.Second

// extenders does to a configuration what upstream does to it when it makes the extenders: each has
// a timeout, and the resources that they keep the scheduler from looking at take the place of
// NodeResourcesFit's ignoredResources, in all profiles.
func (p *problems) extenders(c *configv1.KubeSchedulerConfiguration) {
	for i := range c.Extenders {
		orEmpty(&c.Extenders[i].HTTPTimeout.Duration, defaultExtenderTimeout)
	}
	ignored := ignoredByExtenders(c.Extenders)
	if len(ignored) == 0 {
		return
	}
	for i := range c.Profiles {
		if !ignore(&c.Profiles[i], ignored) {
			p.at(fmt.Sprintf("profiles[%d].pluginConfig", i), "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")
			return
		}
	}
}

// ignore puts resources in NodeResourcesFit's arguments, and tells whether there are any.
func ignore(p *configv1.KubeSchedulerProfile, resources []string) bool {
	for _, c := range p.PluginConfig {
		if args, ok := c.Args.Object.(*configv1.NodeResourcesFitArgs); ok {
			args.IgnoredResources = resources
			return true
		}
	}
	return false
}

// ignoredByExtenders are the resources that extenders keep the scheduler from looking at.
func ignoredByExtenders(list []configv1.Extender) []string {
	var names []string
	for _, e := range list {
		for _, r := range e.ManagedResources {
			if r.IgnoredByScheduler {
				names = append(names, r.Name)
			}
		}
	}
	return names
}
