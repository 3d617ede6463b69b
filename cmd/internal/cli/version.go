package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// semantics is the release of kube-scheduler by whose rules is decided.
const semantics = "v1.36.3"

// Version is the module's version as the Go tool recorded it, with the commit
// where there is one.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v, commit := "devel", setting(info, "vcs.revision")
	if commit != "" {
		v += "-" + commit[:min(12, len(commit))]
	}
	if commit != "" && setting(info, "vcs.modified") == "true" {
		v += "-dirty"
	}
	return v
}

// setting is what the Go tool recorded under a key; empty: nothing.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// kubernetesVersion is this program in the terms of Kubernetes' components: the release whose
// semantics it has, so that alerts on a skew of versions stay quiet, and behind it what it is.
func kubernetesVersion(info *debug.BuildInfo) apimachineryversion.Info {
	release := version.MustParseSemantic(semantics)
	v := apimachineryversion.Info{
		Major: fmt.Sprint(release.Major()), Minor: fmt.Sprint(release.Minor()),
		// Of what a version may have behind its +, Go's own writes + again.
		GitVersion: semantics + "+shardsched." + strings.ReplaceAll(versionOf(info), "+", "."),
		GitCommit:  setting(info, "vcs.revision"),
		BuildDate:  cmp.Or(setting(info, "vcs.time"), "1970-01-01T00:00:00Z"),
		GoVersion:  runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	switch setting(info, "vcs.modified") {
	case "true":
		v.GitTreeState = "dirty"
	case "false":
		v.GitTreeState = "clean"
	}
	return v
}

func newVersionCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: groupOther,
		Short:   "Print the version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			return printVersion(s.Out)
		},
	}
}

func printVersion(w io.Writer) error {
	_, err := io.WriteString(w, versionLine())
	return err
}

func versionLine() string {
	return fmt.Sprintf("shardsched %s (%s %s/%s), semantics of kube-scheduler %s\n",
		Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, semantics)
}

// versionFlag is kube-scheduler's --version: true, raw, or a version to go by.
type versionFlag struct{ value string }

// String is part of pflag.Value.
func (v *versionFlag) String() string { return cmp.Or(v.value, "false") }

// Type is part of pflag.Value.
func (v *versionFlag) Type() string { return "version" }

// Set is part of pflag.Value.
func (v *versionFlag) Set(s string) error {
	switch {
	case s == "raw":
	case strings.HasPrefix(s, "v"):
		// Upstream's --version=v1.36.3-vendor renames the binary. Nothing here goes by that name.
		got, err := version.ParseSemantic(s)
		if err != nil {
			return err
		}
		if got.Major() != 1 || got.Minor() != 36 {
			return fmt.Errorf("version %q must match major/minor of 1.36", s)
		}
	default:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return err
		}
		s = strconv.FormatBool(b)
	}
	v.value = s
	return nil
}

func (v *versionFlag) flag() *pflag.Flag {
	return &pflag.Flag{
		Name: "version", Value: v, DefValue: v.String(), NoOptDefVal: "true",
		Usage: "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the reported version",
	}
}

func (v *versionFlag) asked() bool { return v.value == "true" || v.value == "raw" }

func (v *versionFlag) print(w io.Writer) error {
	if v.value == "raw" {
		if info, ok := debug.ReadBuildInfo(); ok {
			_, err := fmt.Fprintln(w, strings.TrimSpace(info.String()))
			return err
		}
	}
	return printVersion(w)
}
