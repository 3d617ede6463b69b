package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/openb"
	"github.com/shardsched/shardsched/coordinator/framework"
)

type convertOpenbOptions struct {
	nodes, pods, output, file string
	demo                      bool
	seed                      uint64
}

func newConvertCommand(s Streams, plugins framework.Registry) *cobra.Command {
	c := &cobra.Command{
		Use:     "convert",
		GroupID: groupOther,
		Short:   "Convert traces to Kubernetes objects, and old policies and configurations to today's",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("name what to convert: %[1]s openb, %[1]s policy, or %[1]s config", c.CommandPath())
		},
	}
	c.AddCommand(newConvertOpenbCommand(s), newConvertPolicyCommand(s), newConvertConfigCommand(s, plugins))
	return c
}

func newConvertOpenbCommand(s Streams) *cobra.Command {
	var o convertOpenbOptions
	c := &cobra.Command{
		Use:   "openb --nodes CSV --pods CSV",
		Short: "Convert the openb GPU trace",
		Long: `Convert the openb GPU trace (github.com/hkust-adsl/kubernetes-scheduler-simulator,
data/csv) to nodes and pending pods, in the order of the files.

Whole GPUs become nvidia.com/gpu, with 1000 shardsched.io/gpu-milli each; a share of
a GPU becomes shardsched.io/gpu-milli alone, so the devices of a node are not
promised twice in sum. A share is not bound to one device. gpu_spec becomes required
node affinity on the label shardsched.io/gpu-model. Every node takes 110 pods, the
kubelet's default: the trace has no limit.`,
		Example: `  shardsched convert openb --nodes openb_node_list_all_node.csv --pods openb_pod_list_default.csv > openb.yaml
  shardsched convert openb --nodes nodes.csv --pods pods.csv -o json --file openb.json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.nodes == "" && o.pods == "" && !o.demo {
				return usagef("--nodes, --pods or --demo is required")
			}
			if err := oneOf("output", o.output, "yaml", "json"); err != nil {
				return err
			}
			return o.run(s)
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.nodes, "nodes", "", "node list (`CSV`)")
	fs.StringVar(&o.pods, "pods", "", "pod list (`CSV`)")
	fs.BoolVar(&o.demo, "demo", false, "write the cluster that `up --demo` makes")
	fs.Lookup("demo").Usage = "write the cluster that 'up --demo' makes"
	addSeedFlag(fs, &o.seed)
	fs.StringVarP(&o.output, "output", "o", "yaml", "form of the answer: yaml, json")
	fs.StringVar(&o.file, "file", "", "write to `FILE`; empty: standard output")
	return c
}

func (o *convertOpenbOptions) run(s Streams) error {
	var nodes []openb.Node
	var pods []openb.Pod
	if o.demo {
		nodes, pods = openb.Demo(o.seed)
	}
	moreNodes, err := readCSV(o.nodes, openb.ReadNodes)
	if err != nil {
		return err
	}
	morePods, err := readCSV(o.pods, openb.ReadPods)
	if err != nil {
		return err
	}
	nodeObjects, podObjects := openb.Objects(append(nodes, moreNodes...), append(pods, morePods...))
	write := func(w io.Writer) error { return openb.Write(w, o.output, nodeObjects, podObjects) }
	if err := toFile(s, o.file, write); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%d nodes, %d pods\n", len(nodeObjects), len(podObjects))
	return nil
}

func readCSV[T any](path string, read func(io.Reader, string) ([]T, error)) ([]T, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path)
}

// toFile writes to a file, or to Out where none is named.
func toFile(s Streams, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(s.Out)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
