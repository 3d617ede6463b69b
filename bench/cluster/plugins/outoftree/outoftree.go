// Package outoftree names the plugins that are compiled into kube-scheduler and into shardsched.
package outoftree

import (
	"github.com/shardsched/shardsched/bench/cluster/plugins/scripted"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/gang"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/load"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/quota"
)

// All are the plugins by name.
func All() map[string]scripted.Factory {
	return map[string]scripted.Factory{
		"A": scripted.New("A"), "B": scripted.New("B"), scripted.SortName: scripted.NewSort,
		gang.Name: gang.New, quota.Name: quota.New, load.Name: load.New,
	}
}
