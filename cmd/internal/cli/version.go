package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the module's version as the Go tool recorded it, with the commit
// where there is one.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, commit, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if version == "" || version == "(devel)" {
		version = "devel"
		if commit != "" {
			version += "-" + commit + dirty
		}
	}
	return version
}

func newVersionCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: groupOther,
		Short:   "Print the version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.Out, "shardsched %s (%s %s/%s), semantics of kube-scheduler 1.36\n",
				Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
