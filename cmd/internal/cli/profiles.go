package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/outoftree"
)

func (o *Configuration) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Config, "config", "", "KubeSchedulerConfiguration `FILE`")
	fs.StringVar(&o.WriteConfigTo, "write-config-to", "", "write the configuration with all defaults to `FILE` and exit; -: standard "+
		"output")
}

// read reads the file; without one the defaults hold.
func (o *Configuration) read() (*config.Config, error) {
	if o.legacy != nil {
		return o.translate()
	}
	if o.Config == "" {
		return o.reader().FromDefault(o.changes...)
	}
	return o.reader().Load(o.Config, o.changes...)
}

// reader knows the plugins that are compiled in, and the feature gates.
func (o *Configuration) reader() config.Reader {
	return config.ReaderFor(slices.Collect(maps.Keys(o.plugins))).With(o.podGroups)
}

// load reads the file for a run without Kubernetes. What of it is not done is logged once.
func (o *Configuration) load() (*config.Config, error) {
	c, err := o.read()
	if err != nil {
		return nil, err
	}
	return c, o.tellOf(c, c.NoEffect())
}

// tellOf logs what a configuration comes to; idle are its fields without effect.
func (o *Configuration) tellOf(c *config.Config, idle []string) error {
	log := klog.Background().WithValues("file", o.Config)
	if log := log.V(2); log.Enabled() {
		text, err := sigsyaml.Marshal(c.Public())
		if err != nil {
			return err
		}
		log.Info("Using component config", "config", string(text))
	}
	if o.translated != nil {
		tellOfPolicy(o.translated)
	} else if o.Config == "" {
		return nil
	}
	tell(log, "The profiles have plugins in use whose feature gates are off: pods are scheduled as if these were not there", "plugins",
		c.NotEvaluated())
	tell(log, "Fields of the configuration have no effect", "fields", idle)
	return nil
}

func tell(log klog.Logger, what, key string, list []string) {
	if len(list) > 0 {
		log.Info(what, key, strings.Join(list, ", "))
	}
}

// write writes the configuration whole, instead of running anything.
func (o *Configuration) write(out io.Writer) error {
	c, err := o.read()
	if err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	if o.WriteConfigTo == "-" {
		_, err = out.Write(text)
	} else {
		// Extenders may have keys in it.
		err = os.WriteFile(o.WriteConfigTo, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// configure puts a configuration into a scheduler's settings, with the plugins that are compiled in;
// nil stands for the defaults.
func configure(c *config.Config, plugins framework.Registry, into *coordinator.SchedulerConfig) error {
	if c == nil {
		c = config.Default()
	}
	into.Extenders = c.Extenders()
	// Each term makes its own. What is wrong with their certificates is told at once.
	if _, err := extender.NewAll(into.Extenders, extender.Options{}); err != nil {
		return err
	}
	profiles, err := c.Profiles()
	if err != nil {
		return err
	}
	into.Profiles, into.Groups = profiles, c.PodGroups()
	if with := c.OutOfTree(); len(with) > 0 {
		into.OutOfTree = &outoftree.Config{
			Registry: plugins, Profiles: with, Environment: framework.Environment{Parallelism: c.Parallelism()},
		}
	}
	into.InitialBackoff, into.MaxBackoff = c.PodInitialBackoff, c.PodMaxBackoff
	return nil
}
