package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardsched/shardsched/cmd/internal/kubeflags"
	"github.com/shardsched/shardsched/cmd/internal/staticpod"
	"github.com/shardsched/shardsched/coordinator/framework"
)

func newGenerateCommand(s Streams, plugins framework.Registry) *cobra.Command {
	c := &cobra.Command{
		Use:     "generate",
		GroupID: groupOther,
		Short:   "Make a static pod from kube-scheduler's",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("name what to make: %s static-pod", c.CommandPath())
		},
	}
	c.AddCommand(newGenerateStaticPodCommand(s, plugins))
	return c
}

func newGenerateStaticPodCommand(s Streams, plugins framework.Registry) *cobra.Command {
	var from, image, user, file string
	c := &cobra.Command{
		Use:   "static-pod --from FILE|- --image IMAGE",
		Short: "Make a static pod in kube-scheduler's place, with the flags and files that it had",
		Long: fmt.Sprintf(`Read the manifest of kube-scheduler's static pod, and write that of a coordinator in its
place: with its flags, its files of the node, one by one, and its probes, and an etcd
within the process. A flag that can't be honoured is refused, with the reason.

The process runs as a user other than root: that of --user, else the manifest's own,
else %d. kubeadm's files are root's alone; the command that opens them for
the user's group is told on standard error, and in the manifest's head.

Files that are named by a configuration or a kubeconfig are looked up where these are
at hand: run it on a node of the control plane.`, staticpod.DefaultUser),
		Example: `  shardsched generate static-pod --from /etc/kubernetes/manifests/kube-scheduler.yaml \
    --image registry.example.com/shardsched:v1 > kube-scheduler.yaml`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if from == "" || image == "" {
				return usagef("--from and --image are required")
			}
			o := generateOptions(plugins)
			o.Image = image
			var err error
			if o.User, o.Group, err = parseUser(user); err != nil {
				return err
			}
			made, err := readNamed(s, from, func(name string, text []byte) (*staticpod.Result, error) {
				o.From = name
				return staticpod.Generate(text, o)
			})
			if err != nil {
				return err
			}
			for _, note := range made.Notes {
				fmt.Fprintf(s.Err, "note: %s\n", note)
			}
			for _, command := range made.Commands {
				fmt.Fprintf(s.Err, "on each node, before the pod is there: %s\n", command)
			}
			return toFile(s, file, func(w io.Writer) error {
				_, err := w.Write(made.Manifest)
				return err
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&from, "from", "", "manifest of kube-scheduler's static pod: a `FILE`, or - for standard input")
	fs.StringVar(&image, "image", "", "`IMAGE` of shardsched")
	fs.StringVar(&user, "user", "", "`UID[:GID]` of the process; the group is that of the same number where none is given")
	fs.StringVar(&file, "file", "", "write to `FILE`; empty: standard output")
	return c
}

// generateOptions look at the machine's own files.
func generateOptions(plugins framework.Registry) staticpod.Options {
	return staticpod.Options{
		Host:  os.DirFS("/"),
		Parse: func(theirs, ours []string) ([]staticpod.File, error) { return parseCoordinator(theirs, ours, plugins) },
		Configuration: func(name string, text []byte) ([]staticpod.File, error) {
			c, err := (&Configuration{plugins: plugins}).reader().Parse(name, text)
			if err != nil {
				return nil, err
			}
			files := []staticpod.File{{Of: "kubeconfig", Path: c.ClientConnection.Kubeconfig}}
			for _, e := range c.Extenders() {
				if t := e.TLSConfig; t != nil {
					files = append(files, staticpod.File{Of: "certFile", Path: t.CertFile}, staticpod.File{Of: "keyFile", Path: t.KeyFile},
						staticpod.File{Of: "caFile", Path: t.CAFile})
				}
			}
			return withPath(files), nil
		},
	}
}

func parseUser(text string) (user, group int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, second, two := strings.Cut(text, ":")
	if !two {
		second = first
	}
	const bits = 31 // as the API server has it
	user, err = strconv.ParseInt(first, 10, 32)
	if err == nil {
		group, err = strconv.ParseInt(second, 10, 32)
	}
	if err != nil || user <= 0 || group <= 0 {
		return 0, 0, usagef("--user: %q is not UID or UID:GID of numbers from 1 to %d: root is not needed", text, 1<<bits-1)
	}
	return user, group, nil
}

// parseCoordinator reads kube-scheduler's arguments and ours as the coordinator does, and tells which files they name.
func parseCoordinator(theirs, ours []string, plugins framework.Registry) (files []staticpod.File, err error) {
	if err := refuseForeign(theirs, plugins); err != nil {
		return nil, err
	}
	var o CoordinatorOptions
	c := NewCoordinatorCommand(func(_ context.Context, got CoordinatorOptions) error { o = got; return nil }, plugins)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(append(slices.Clip(theirs), ours...))
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.Execute(); err != nil {
		return nil, err
	}
	if o.Kube == nil {
		return nil, usagef("want flags to schedule by, got --help, --version or --write-config-to")
	}
	fs := c.Flags()
	for _, flag := range []string{"config", "kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "client-ca-file",
		"requestheader-client-ca-file", "tls-cert-file", "tls-private-key-file", policyFileFlag, "allow-metric-labels-manifest"} {
		files = append(files, staticpod.File{Of: "--" + flag, Path: fs.Lookup(flag).Value.String()})
	}
	if fs.Changed("cert-dir") {
		return nil, usagef("--cert-dir: a certificate would be written there: give --tls-cert-file and --tls-private-key-file, or neither")
	}
	for _, pair := range o.Kube.Serving.SNICertKeys {
		files = append(files, staticpod.File{Of: "--tls-sni-cert-key", Path: pair.CertFile},
			staticpod.File{Of: "--tls-sni-cert-key", Path: pair.KeyFile})
	}
	return withPath(files), nil
}

// withPath are the files whose name is not empty.
func withPath(files []staticpod.File) (some []staticpod.File) {
	for _, f := range files {
		if f.Path != "" {
			some = append(some, f)
		}
	}
	return some
}

// refuseForeign refuses flags that are the coordinator's, and not kube-scheduler's.
func refuseForeign(args []string, plugins framework.Registry) error {
	c := NewCoordinatorCommand(nil, plugins)
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	kube, err := kubeflags.New()
	if err != nil {
		return err
	}
	var theirs pflag.FlagSet
	for _, set := range kube.Sets().FlagSets {
		theirs.AddFlagSet(set)
	}
	(&Configuration{}).addFlags(&theirs)
	(&LegacyPolicy{}).addFlags(&theirs)
	c.Flags().Visit(func(f *pflag.Flag) {
		if theirs.Lookup(f.Name) == nil && f.Name != "help" && f.Name != "version" {
			err = errors.Join(err, fmt.Errorf("--%s: kube-scheduler has no such flag", f.Name))
		}
	})
	return err
}
