package cli

import (
	"strings"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/schedconfig"
	"github.com/shardsched/shardsched/coordinator/compile"
)

// loadProfiles reads the profiles of a KubeSchedulerConfiguration file; without a
// file they are the default one. What of the file has no effect is logged once.
func loadProfiles(path string) (map[string]*compile.Profile, error) {
	c, err := schedconfig.Read(path)
	if err != nil {
		return nil, err
	}
	if len(c.WithoutEffect) > 0 {
		klog.Background().Info("Fields of the configuration have no effect", "file", path, "fields", strings.Join(c.WithoutEffect, ", "))
	}
	return c.Profiles, nil
}
