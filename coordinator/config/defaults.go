package config

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
)

// complete fills in what the file leaves out, as upstream does. Plugins become the whole
// sets, and every plugin in use that takes arguments gets them.
func complete(c *configv1.KubeSchedulerConfiguration, gates groups.Gates) {
	c.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(kind))
	orElse(&c.Parallelism, 16)
	if len(c.Profiles) == 0 {
		c.Profiles = make([]configv1.KubeSchedulerProfile, 1)
	}
	if len(c.Profiles) == 1 {
		orElse(&c.Profiles[0].SchedulerName, v1.DefaultSchedulerName)
	}
	for i := range c.Profiles {
		completeProfile(&c.Profiles[i], gates)
	}
	orElse(&c.PercentageOfNodesToScore, 0)
	orElse(&c.PodInitialBackoffSeconds, 1)
	orElse(&c.PodMaxBackoffSeconds, 10)
	completeClients(c)
	orElse(&c.EnableProfiling, true)
	if *c.EnableProfiling {
		orElse(&c.EnableContentionProfiling, true)
	}
	orElse(&c.EnableContentionProfiling, false)
}

// completeClients fills in what concerns the API server.
func completeClients(c *configv1.KubeSchedulerConfiguration) {
	l := &c.LeaderElection
	orEmpty(&l.ResourceLock, "leases")
	orEmpty(&l.ResourceNamespace, configv1.SchedulerDefaultLockObjectNamespace)
	orEmpty(&l.ResourceName, configv1.SchedulerDefaultLockObjectName)
	componentv1alpha1.RecommendedDefaultLeaderElectionConfiguration(l)
	orEmpty(&c.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	orEmpty(&c.ClientConnection.QPS, 50)
	orEmpty(&c.ClientConnection.Burst, 100)
}

func completeProfile(p *configv1.KubeSchedulerProfile, gates groups.Gates) {
	p.Plugins = mergePlugins(p.Plugins, gates)
	there := sets.Set[string]{}
	for _, c := range p.PluginConfig {
		there.Insert(c.Name)
		if c.Args.Object != nil {
			of := argumentsOf(c.Name)
			of.Complete(c.Args.Object)
			c.Args.Object.GetObjectKind().SetGroupVersionKind(of.Version.WithKind(c.Name + "Args"))
		}
	}
	for _, name := range sets.List(named(p.Plugins)) {
		of := argumentsOf(name)
		if of == nil || there.Has(name) {
			continue
		}
		args := of.Empty()
		of.Complete(args)
		args.GetObjectKind().SetGroupVersionKind(of.Version.WithKind(name + "Args"))
		p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: args}})
	}
}

// named are the plugins that any set enables.
func named(s *configv1.Plugins) sets.Set[string] {
	names := sets.Set[string]{}
	for _, e := range s.MultiPoint.Enabled {
		names.Insert(e.Name)
	}
	for p := range framework.NumPoints {
		for _, e := range p.Of(s).Enabled {
			names.Insert(e.Name)
		}
	}
	return names
}

func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func orEmpty[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
