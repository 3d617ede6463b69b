package cli

import (
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/kube"
)

// readWhole are the objects of which a configuration's expressions read what no rule does.
func readWhole(c *config.Config) (kube.Whole, error) {
	profiles, err := c.Profiles()
	if err != nil {
		return kube.Whole{}, err
	}
	w := kube.Whole{Nodes: len(compile.NodeAnnotations(profiles)) > 0}
	for _, p := range profiles {
		w.Pending = w.Pending || p.WantsWhole()
	}
	return w, nil
}
