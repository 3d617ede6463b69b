package kubeflags

import (
	"errors"
	"fmt"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	metricsapi "k8s.io/component-base/metrics/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/config"
)

// Check sets versions and gates as the flags say, and returns all that is wrong with the
// flags. It comes before all else.
func (f *Flags) Check() error {
	if err := f.registry.Set(); err != nil {
		return err
	}
	errs := f.registry.Validate()
	if err := f.refusedGates(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, f.Serving.Validate()...)
	errs = append(errs, f.Authentication.Validate()...)
	errs = append(errs, f.Authorization.Validate()...)
	if list := metricsapi.Validate(&metricsapi.MetricsConfiguration{
		ShowHiddenMetricsForVersion: f.Metrics.ShowHiddenMetricsForVersion,
		DisabledMetrics:             f.Metrics.DisabledMetrics,
		AllowListMapping:            f.Metrics.AllowListMapping,
	}, semver.MustParse(release+".0"), field.NewPath("metrics")); len(list) > 0 {
		errs = append(errs, list.ToAggregate().Errors()...)
	}
	if _, err := f.MetricsFilter(); err != nil {
		errs = append(errs, err)
	}
	if f.MaxInUnschedulable <= 0 {
		errs = append(errs, fmt.Errorf("--pod-max-in-unschedulable-pods-duration: %s is not positive", f.MaxInUnschedulable))
	}
	return errors.Join(errs...)
}

// Apply puts the flags of logs and metrics into effect, for the process as a whole. The same
// flags may be applied again.
func (f *Flags) Apply() error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(f.Logs, f.gates); err != nil {
		return err
	}
	metricsfeatures.ApplyFeatureGates(f.gates)
	if f.Metrics.ShowHiddenMetricsForVersion != "" {
		metrics.SetShowHidden()
	}
	metrics.SetDisabledMetrics(f.Metrics.DisabledMetrics)
	f.gates.AddMetrics()
	f.registry.AddMetrics()
	return f.applyGates()
}

// Version is what the process emulates.
func (f *Flags) Version() basecompatibility.EffectiveVersion {
	return f.registry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
}

// Enabled tells whether a feature gate is on. The name must be kube-scheduler's.
func (f *Flags) Enabled(gate string) bool {
	for name := range f.gates.GetAll() {
		if string(name) == gate {
			return f.gates.Enabled(name)
		}
	}
	return false
}

// Idle are the flags that were given and change nothing, each with the reason.
func (f *Flags) Idle(withFile bool) []string {
	var list []string
	for _, name := range []string{"emulated-version", "min-compatibility-version"} {
		if f.Given(name) {
			list = append(list, "--"+name+": there is one version of the rules, that of "+release)
		}
	}
	if withFile {
		for _, name := range []string{"profiling", "contention-profiling", "kubeconfig", "kube-api-content-type", "kube-api-qps",
			"kube-api-burst"} {
			if f.Given(name) {
				list = append(list, "--"+name+": the file of --config goes before it")
			}
		}
	}
	return append(list, f.idleGates()...)
}

// Changes are what the flags say of the configuration: withFile tells whether there is a
// file, in which case the deprecated flags do not count.
func (f *Flags) Changes(withFile bool) []config.Change {
	changes := []config.Change{f.elect, f.GatesChange}
	if !withFile {
		changes = append(changes, f.deprecate)
	}
	return changes
}

func (f *Flags) elect(c *configv1.KubeSchedulerConfiguration) {
	given, l, to := f.sets.FlagSets[electionSet].Changed, f.LeaderElection, &c.LeaderElection
	if given("leader-elect") {
		to.LeaderElect = &l.LeaderElect
	}
	if given("leader-elect-lease-duration") {
		to.LeaseDuration = l.LeaseDuration
	}
	if given("leader-elect-renew-deadline") {
		to.RenewDeadline = l.RenewDeadline
	}
	if given("leader-elect-retry-period") {
		to.RetryPeriod = l.RetryPeriod
	}
	if given("leader-elect-resource-lock") {
		to.ResourceLock = l.ResourceLock
	}
	if given("leader-elect-resource-name") {
		to.ResourceName = l.ResourceName
	}
	if given("leader-elect-resource-namespace") {
		to.ResourceNamespace = l.ResourceNamespace
	}
}

func (f *Flags) deprecate(c *configv1.KubeSchedulerConfiguration) {
	given, d := f.sets.FlagSets[deprecatedSet].Changed, f.Deprecated
	if given("profiling") {
		c.EnableProfiling = &d.Profiling
	}
	if given("contention-profiling") {
		c.EnableContentionProfiling = &d.ContentionProfiling
	}
	if given("kubeconfig") {
		c.ClientConnection.Kubeconfig = d.Kubeconfig
	}
	if given("kube-api-content-type") {
		c.ClientConnection.ContentType = d.ContentType
	}
	if given("kube-api-qps") {
		c.ClientConnection.QPS = d.QPS
	}
	if given("kube-api-burst") {
		c.ClientConnection.Burst = d.Burst
	}
}
