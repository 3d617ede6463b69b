package cli

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/kube"
)

// readWhole are the objects of which a configuration's expressions read what no rule does, and those
// that extenders are sent.
func readWhole(c *config.Config) (kube.Whole, error) {
	profiles, err := c.Profiles()
	if err != nil {
		return kube.Whole{}, err
	}
	w := kube.Whole{Nodes: len(compile.NodeAnnotations(profiles)) > 0}
	for _, p := range profiles {
		w.Pending = w.Pending || p.WantsWhole()
	}
	list, err := extender.NewAll(c.Extenders(), extender.Options{})
	for _, e := range list {
		w.Nodes = w.Nodes || e.WantsNodes()
		w.Pending = w.Pending || e.WantsPods()
		w.Pods = w.Pods || e.WantsVictims()
	}
	return w, err
}
