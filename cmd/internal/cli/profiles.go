package cli

import (
	"strings"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
)

// configure reads a KubeSchedulerConfiguration file into a scheduler's settings; without
// a file they are the defaults. What of it has no effect is logged once.
func configure(path string, into *coordinator.SchedulerConfig) error {
	c := config.Default()
	if path != "" {
		var err error
		if c, err = config.Load(path); err != nil {
			return err
		}
		tell("The configuration names plugins that are not evaluated yet", "plugins", path, c.NotEvaluated())
		tell("Fields of the configuration have no effect", "fields", path, c.NoEffect())
	}
	profiles, err := c.Profiles()
	if err != nil {
		return err
	}
	into.Profiles = profiles
	into.InitialBackoff, into.MaxBackoff = c.PodInitialBackoff, c.PodMaxBackoff
	return nil
}

func tell(what, key, path string, list []string) {
	if len(list) > 0 {
		klog.Background().Info(what, "file", path, key, strings.Join(list, ", "))
	}
}
