package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
)

func newConvertConfigCommand(s Streams, plugins framework.Registry) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "config FILE|-",
		Short: "Convert a KubeSchedulerConfiguration of v1beta1, v1beta2 or v1beta3 to v1",
		Long: `Convert a KubeSchedulerConfiguration of v1beta1, v1beta2 or v1beta3 to v1, by which
pods are scheduled as by the old one: weights that were others by default are
written down. Comments tell, field by field, what was done; what has no meaning in
v1 is refused, by its field. The file's own comments are not kept.`,
		Example: `  shardsched convert config old.yaml > kube-scheduler.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			reader := (&Configuration{plugins: plugins}).reader()
			made, err := readNamed(s, args[0], func(name string, data []byte) (*config.Upgraded, error) { return reader.Upgrade(name, data) })
			if err != nil {
				return err
			}
			return toFile(s, file, func(w io.Writer) error {
				_, err := w.Write(made.YAML())
				return err
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "write to `FILE`; empty: standard output")
	return c
}
