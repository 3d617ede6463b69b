package flags

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// folder is where shardsched's lists are.
const folder = "../../../../cmd/internal/kubeflags/"

var write = flag.Bool("write", false, "write the lists instead of comparing them")

// TestLists compares the lists with kube-scheduler's own. With -write it makes them anew.
func TestLists(t *testing.T) {
	command := app.NewSchedulerCommand()
	for file, want := range map[string]string{
		"testdata/flags.txt": flags(command),
		"gates.txt":          gates(utilfeature.DefaultMutableFeatureGate),
	} {
		if *write {
			if err := os.WriteFile(folder+file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(folder + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (go test ./judge/oracle/flags -write makes it anew): -want +got\n%s", file, diff)
		}
	}
}

// jsonFlags are those that kube-scheduler has besides because its main package registers the
// JSON format.
const jsonFlags = `log-json-info-buffer-size "" quantity "0" ""
log-json-split-stream "" bool "false" "true"
`

// flags is a line for each flag: name, shorthand, type, default, and what it is without
// a value.
func flags(c *cobra.Command) string {
	var b strings.Builder
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "log-text-info-buffer-size" {
			b.WriteString(jsonFlags)
		}
		fmt.Fprintf(&b, "%s %q %s %q %q\n", f.Name, f.Shorthand, f.Value.Type(), f.DefValue, f.NoOptDefVal)
	})
	return b.String()
}

// gates is a line for each gate: name, stages, and the gates that it needs. The two that stand for
// others are left out: every set of gates has them.
func gates(known featuregate.MutableVersionedFeatureGate) string {
	var lines []string
	needs := known.Dependencies()
	for name, stages := range known.GetAllVersioned() {
		if name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		line := string(name)
		for _, s := range stages {
			line += " " + stage(s)
		}
		if len(needs[name]) > 0 {
			var list []string
			for _, n := range needs[name] {
				list = append(list, string(n))
			}
			slices.Sort(list)
			line += " needs:" + strings.Join(list, ",")
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func stage(s featuregate.FeatureSpec) string {
	stability := string(s.PreRelease)
	if s.PreRelease == featuregate.GA {
		stability = "GA"
	}
	text := fmt.Sprintf("%s:%s:%t", s.Version, stability, s.Default)
	if s.LockToDefault {
		text += ":locked"
	}
	if s.MinCompatibilityVersion != nil {
		text += ":min=" + s.MinCompatibilityVersion.String()
	}
	return text
}
