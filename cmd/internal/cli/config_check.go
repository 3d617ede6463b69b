package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientset "k8s.io/client-go/kubernetes"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/cmd/internal/kubeflags"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// errDeparts ends config check with exitDeparts: by the same file kube-scheduler decides otherwise, or an extender is not reached.
var errDeparts = errors.New("decisions differ from kube-scheduler's")

func newConfigCommand(s Streams, plugins framework.Registry) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		GroupID: groupOther,
		Short:   "Check a KubeSchedulerConfiguration",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return usagef("name what to do: %s check", c.CommandPath()) },
	}
	c.AddCommand(newConfigCheckCommand(s, plugins))
	return c
}

type configCheckOptions struct {
	Configuration
	gates  *kubeflags.Flags // of which the command line has --feature-gates alone
	access kubeAccess
	reach  bool
}

func newConfigCheckCommand(s Streams, plugins framework.Registry) *cobra.Command {
	gates, err := kubeflags.New()
	if err != nil {
		panic(err) // the lists of flags and gates are ours and a test holds them
	}
	o := configCheckOptions{gates: gates}
	o.plugins = plugins
	c := &cobra.Command{
		Use:   "check (FILE | -)",
		Short: "Tell what a configuration comes to, and where kube-scheduler would decide otherwise by it",
		Long: `Read a KubeSchedulerConfiguration as a coordinator in kube-scheduler's place reads
it with --config, with the same errors, and tell which plugins of each profile are
evaluated and which are not, which fields have no effect, which extenders are asked,
and by which fields kube-scheduler would decide otherwise. Nothing is scheduled.

The feature gates are those that kube-scheduler runs with; a coordinator takes them
with the same flag.

With --kubeconfig it counts the pods of a cluster by profile, those of other
schedulers, and those that ask for what shardsched has not got, or bounds.

The exit code is 0 where pods are scheduled as kube-scheduler would by the file, 2
where they are not, or an extender is not reached, and 1 where the file or the
command line can't be used.`,
		Example: `  shardsched config check kube-scheduler.yaml
  kubectl -n shardsched get configmap kube-scheduler -o jsonpath='{.data.*}' | shardsched config check -
  shardsched config check kube-scheduler.yaml --reach-extenders --kubeconfig view.conf
  shardsched config check kube-scheduler.yaml --feature-gates=GenericWorkload=true,GangScheduling=true`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("give one file: %s FILE", c.CommandPath())
			}
			o.Config = args[0]
			return o.run(c.Context(), s)
		},
	}
	c.SetFlagErrorFunc(seeHelpFails)
	fs := c.Flags()
	for _, set := range gates.Sets().FlagSets {
		if flag := set.Lookup("feature-gates"); flag != nil {
			fs.AddFlag(flag)
		}
	}
	fs.BoolVar(&o.reach, "reach-extenders", false, "see whether anything answers at the extenders' addresses, by a GET")
	o.access.addFlags(fs, "which is asked what it serves, and whose pods are held against the profiles")
	return c
}

func (o *configCheckOptions) run(ctx context.Context, s Streams) error {
	if err := o.gates.Check(); err != nil {
		return err
	}
	o.podGroups, o.changes = o.gates.PodGroups(false), []config.Change{o.gates.GatesChange}
	c, err := o.parse(s)
	if err != nil {
		return err
	}
	var into coordinator.SchedulerConfig
	if err := configure(c, o.plugins, &into); err != nil {
		return err
	}
	if err := into.OutOfTree.Check(ctx); err != nil {
		return err
	}
	cluster := &clusterCheck{profiles: map[string]bool{}}
	for _, p := range c.Expanded() {
		cluster.profiles[*p.SchedulerName] = true
	}
	if o.access.given() {
		if err := o.readCluster(ctx, cluster); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, p := range c.Expanded() {
		writeProfile(&b, p, c)
	}
	paragraph(&b, "No effect:", append(o.gates.Idle(true), c.NoEffectInKubernetes()...))
	extenders, reached := o.extenders(ctx, into.Extenders)
	paragraph(&b, "Extenders:", extenders)
	paragraph(&b, "Binds:", []string{bindRate(c)})
	if o.access.given() {
		cluster.write(&b)
	}
	departures := c.Departures()
	paragraph(&b, "kube-scheduler decides otherwise by this file:", departures)
	paragraph(&b, "Where shardsched departs from it whatever the file says: docs/differences.md,", differences(c))
	if _, err := io.WriteString(s.Out, b.String()); err != nil {
		return err
	}
	if len(departures) > 0 || !reached || len(cluster.lacking) > 0 {
		return errDeparts
	}
	return nil
}

// parse reads the file; -: standard input.
func (o *configCheckOptions) parse(s Streams) (*config.Config, error) {
	if o.Config != "-" {
		return o.read()
	}
	return readNamed(s, o.Config, func(name string, data []byte) (*config.Config, error) {
		return o.reader().Parse(name, data, o.changes...)
	})
}

func paragraph(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// profileOf tells which plugins of a profile run at some point, with the weights of those that score.
func profileOf(p configv1.KubeSchedulerProfile, c *config.Config) *pb.ProfileConfiguration {
	out := &pb.ProfileConfiguration{Name: *p.SchedulerName}
	for _, r := range rules.All() {
		runs, weight := false, ""
		for at := range framework.NumPoints {
			for _, e := range at.Of(p.Plugins).Enabled {
				if runs = runs || e.Name == r.Name; e.Name == r.Name && at == framework.Score && e.Weight != nil && r.Plugin.Scores() {
					weight = fmt.Sprintf(" %d", *e.Weight)
				}
			}
		}
		switch {
		case runs && r.Evaluated(c.PodGroups()):
			out.Evaluated = append(out.Evaluated, r.Name+weight)
		case runs:
			out.NotEvaluated = append(out.NotEvaluated, r.Name)
		}
	}
	for _, of := range c.OutOfTree() {
		if of.Name == *p.SchedulerName {
			out.CompiledIn = outOfTreeNames(&of.Plugins)
		}
	}
	return out
}

func writeProfile(b *strings.Builder, p configv1.KubeSchedulerProfile, c *config.Config) {
	of := profileOf(p, c)
	paragraph(b, "Profile "+of.GetName()+", plugins with the weights of their scores:", slices.DeleteFunc([]string{
		"evaluated: " + cmp.Or(strings.Join(of.GetEvaluated(), ", "), "none"), listed("compiled in: ", of.GetCompiledIn()),
		listed("not evaluated: ", of.GetNotEvaluated()),
	}, func(line string) bool { return line == "" }))
}

// configurationOf is what a coordinator tells of its configuration: nothing of it is secret.
func configurationOf(c *config.Config, noEffect []string) *pb.GetConfigurationResponse {
	out := &pb.GetConfigurationResponse{NoEffect: noEffect, Departures: c.Departures()}
	for _, p := range c.Expanded() {
		out.Profiles = append(out.Profiles, profileOf(p, c))
	}
	for _, d := range c.Differences() {
		out.Differences = append(out.Differences, &pb.ConfigurationDifference{Field: d.Field, Default: d.Default, Value: d.Value})
	}
	extenders := c.Extenders()
	for i := range extenders {
		out.Extenders = append(out.Extenders, extenderLine(&extenders[i]))
	}
	return out
}

// outOfTreeNames are the plugins of sets that are not built in.
func outOfTreeNames(sets *configv1.Plugins) []string {
	var names []string
	add := func(s configv1.PluginSet) {
		for _, e := range s.Enabled {
			if rules.Find(e.Name) == nil && !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
		}
	}
	add(sets.MultiPoint)
	for at := range framework.NumPoints {
		add(*at.Of(sets))
	}
	return names
}

// listed is a list behind a title; "": there is nothing in it.
func listed(title string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return title + strings.Join(list, ", ")
}

// extenders tell of each what it is asked, and about which pods; reached: there is none that was looked for in vain.
func (o *configCheckOptions) extenders(ctx context.Context, list []configv1.Extender) (lines []string, reached bool) {
	reached = true
	for i := range list {
		e := &list[i]
		line := extenderLine(e)
		if o.reach {
			switch err := reach(ctx, e); {
			case err == nil:
				line += "; reached"
			default:
				line, reached = line+"; not reached: "+err.Error(), false
			}
		}
		lines = append(lines, line)
	}
	return lines, reached
}

// extenderLine tells what an extender is asked, and about which pods. A password in its address is left out.
func extenderLine(e *configv1.Extender) string {
	var verbs, managed []string
	for _, v := range []string{e.FilterVerb, e.PrioritizeVerb, e.PreemptVerb, e.BindVerb} {
		if v != "" {
			verbs = append(verbs, v)
		}
	}
	for _, r := range e.ManagedResources {
		managed = append(managed, r.Name)
	}
	line := extender.Label(e.URLPrefix) + ": " + strings.Join(verbs, ", ") + "; " +
		cmp.Or(listed("asked about pods with ", managed), "asked about all pods")
	if e.Ignorable {
		line += "; passed over when it fails"
	}
	return line
}

func reach(ctx context.Context, c *configv1.Extender) error {
	e, err := extender.New(c, extender.Options{})
	if err != nil {
		return err
	}
	return e.Reach(ctx)
}

// bindRate tells how many pods are bound in a second at the most.
func bindRate(c *config.Config) string {
	const more = "docs/configuration.md, \"What qps costs\""
	if qps := c.ClientConnection.QPS; qps > 0 {
		return fmt.Sprintf("%g a second at the most, by clientConnection.qps: %s", qps, more)
	}
	return "without a limit, for clientConnection.qps is negative: " + more
}

// differences are the parts of docs/differences.md that are about what the file has.
func differences(c *config.Config) []string {
	parts := []string{`"Which node a pod gets" and "When a pod is tried"`}
	if len(c.Extenders()) > 0 {
		parts = append(parts, `"Extenders"`)
	}
	if len(c.OutOfTree()) > 0 {
		parts = append(parts, `"Out-of-tree plugins"`)
	}
	return parts
}

// clusterCheck holds a cluster against a configuration.
type clusterCheck struct {
	profiles map[string]bool
	server   []string // what follows from what the API server does not serve
	// all and waiting are the pods by schedulerName, and those of them that have no node.
	all, waiting map[string]int
	// lacking are pods of the profiles by what of theirs is not scheduled as kube-scheduler would.
	lacking map[string]*missing
}

// missing is how many pods lack something, and the names of the first three.
type missing struct {
	pods  int
	names []string
}

// readCluster takes in what the API server lacks, and all pods of the cluster, some at a time.
func (o *configCheckOptions) readCluster(ctx context.Context, into *clusterCheck) error {
	access, err := o.access.rest()
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	if into.server, err = serverLacks(client.Discovery(), o.podGroups.Workload); err != nil {
		return err
	}
	into.all, into.waiting, into.lacking = map[string]int{}, map[string]int{}, map[string]*missing{}
	take := func(obj runtime.Object) { into.take(obj.(*v1.Pod)) }
	err = eachItem(ctx, client.CoreV1().Pods(v1.NamespaceAll).List, metav1.ListOptions{}, take)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	return nil
}

// serverLacks tells the version of an API server, and what follows from what it does not serve. podGroups: they are to be read.
func serverLacks(server discovery.DiscoveryInterface, podGroups bool) ([]string, error) {
	is, err := server.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	lines := []string{is.GitVersion}
	now, err := version.ParseGeneric(is.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("version of the API server: %w", err)
	}
	_, err = server.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		lines = append(lines, "resource.k8s.io/v1 is not served: pods with resource claims are refused")
	case err != nil:
		return nil, fmt.Errorf("ask the API server what it serves: %w", err)
	case now.LessThan(version.MustParseGeneric("1.36.0")):
		lines = append(lines, "pods that ask for devices as extended resources are refused, unless its gate DRAExtendedResource is on")
	}
	if !podGroups {
		return lines, nil
	}
	of := schedulingv1alpha2.SchemeGroupVersion.String()
	switch _, err := server.ServerResourcesForGroupVersion(of); {
	case apierrors.IsNotFound(err):
		lines = append(lines, of+" is not served: with the feature gate GenericWorkload a coordinator does not start; the API server needs "+
			"--runtime-config="+of+"=true")
	case err != nil:
		return nil, fmt.Errorf("ask the API server what it serves: %w", err)
	}
	return lines, nil
}

func (x *clusterCheck) take(p *v1.Pod) {
	name := p.Spec.SchedulerName
	if x.all[name]++; p.Spec.NodeName == "" {
		x.waiting[name]++
	}
	if !x.profiles[name] {
		return
	}
	for _, what := range observe.Lacks(p) {
		l := x.lacking[what]
		if l == nil {
			l = &missing{}
			x.lacking[what] = l
		}
		if l.pods++; l.pods <= 3 {
			l.names = append(l.names, p.Namespace+"/"+p.Name)
		}
	}
}

// write tells of the API server, of the pods by profile, of those that are other schedulers', and of what pods lack.
func (x *clusterCheck) write(b *strings.Builder) {
	var own, others, lacking []string
	for name := range x.profiles {
		own = append(own, x.line(name))
	}
	for name := range x.all {
		if !x.profiles[name] {
			others = append(others, x.line(name))
		}
	}
	for what, l := range x.lacking {
		which := strings.Join(l.names, ", ")
		if more := l.pods - len(l.names); more > 0 {
			which += fmt.Sprintf(" and %d more", more)
		}
		lacking = append(lacking, what+": "+which)
	}
	for _, list := range [][]string{own, others, lacking} {
		slices.Sort(list)
	}
	paragraph(b, "API server (docs/versions.md):", x.server)
	paragraph(b, "Pods of the cluster by profile:", own)
	if len(others) == 0 {
		others = []string{"none"}
	}
	paragraph(b, "Pods of the cluster whose schedulerName is no profile's, which are left to other schedulers:", others)
	paragraph(b, "Pods of the cluster that are not scheduled as kube-scheduler would:", lacking)
}

func (x *clusterCheck) line(name string) string {
	return fmt.Sprintf("%s: %d, %d of them without a node", name, x.all[name], x.waiting[name])
}
