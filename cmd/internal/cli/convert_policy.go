package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/config/policy"
)

type convertPolicyOptions struct {
	configMap, provider, from, file string
}

func newConvertPolicyCommand(s Streams) *cobra.Command {
	var o convertPolicyOptions
	c := &cobra.Command{
		Use:   "policy FILE|-",
		Short: "Convert a scheduler Policy of 1.22 and before",
		Long: `Convert a scheduler Policy (predicates, priorities and extenders, as kube-scheduler
took it with --policy-config-file up to 1.22) to a KubeSchedulerConfiguration whose
profile does the same. Comments tell what became of each name; what no plugin does
any more is refused, by name and with the reason.`,
		Example: `  shardsched convert policy /etc/kubernetes/policy.json > kube-scheduler.yaml
  kubectl get configmap -n kube-system scheduler-policy -o yaml | shardsched convert policy --from-configmap -
  shardsched convert policy --provider ClusterAutoscalerProvider --from-version 1.17`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(s, args) },
	}
	fs := c.Flags()
	fs.StringVar(&o.configMap, "from-configmap", "",
		"manifest `FILE` of a ConfigMap with the Policy under "+policy.ConfigMapKey+"; -: standard input")
	fs.StringVar(&o.provider, "provider", "", "algorithm provider: "+strings.Join(policy.Providers(), ", "))
	fs.StringVar(&o.from, "from-version", fmt.Sprintf("1.%d", policy.LastMinor), fmt.Sprintf("`VERSION` of the kube-scheduler that read "+
		"it, 1.%d to 1.%d: lists that are left out stand for its defaults", policy.FirstMinor, policy.LastMinor))
	fs.StringVar(&o.file, "file", "", "write to `FILE`; empty: standard output")
	return c
}

func (o *convertPolicyOptions) run(s Streams, args []string) error {
	minor, err := policy.ParseVersion(o.from)
	if err != nil {
		return usagef("--from-version: %w", err)
	}
	p, err := o.read(s, args)
	if err != nil {
		return err
	}
	made, err := policy.Translate(p, policy.Options{Minor: minor})
	if err != nil {
		return err
	}
	if _, err := made.Config(config.Reader{}); err != nil {
		return err
	}
	text, err := made.YAML()
	if err != nil {
		return err
	}
	return toFile(s, o.file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// read reads what is to be converted: exactly one thing.
func (o *convertPolicyOptions) read(s Streams, args []string) (*policy.Policy, error) {
	n := len(args)
	for _, flag := range []string{o.configMap, o.provider} {
		if flag != "" {
			n++
		}
	}
	if n != 1 {
		return nil, usagef("give one of a Policy's file, --from-configmap and --provider")
	}
	switch {
	case o.provider != "":
		p, err := policy.Provider(o.provider)
		if err != nil {
			return nil, usagef("--provider: %w", err)
		}
		return p, nil
	case o.configMap != "":
		return readNamed(s, o.configMap, policy.ParseConfigMap)
	}
	return readNamed(s, args[0], policy.Parse)
}

// readNamed reads a file, or In where it is called "-".
func readNamed[T any](s Streams, path string, parse func(string, []byte) (T, error)) (none T, err error) {
	in, name := s.In, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return none, err
		}
		defer f.Close()
		in, name = f, path
	}
	const most = 8 << 20 // more than a Policy can be: parse says so
	data, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return none, fmt.Errorf("read %s: %w", name, err)
	}
	return parse(name, data)
}
