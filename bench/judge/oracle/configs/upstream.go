package configs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// stage is how far kube-scheduler came with a file.
type stage int

const (
	decoding stage = iota
	validating
	building
	running
)

// theirs is what kube-scheduler makes of a file.
type theirs struct {
	stage stage
	err   error // of the stage; nil: running
	// inUse are the plugins that each profile instantiates, from validating on.
	inUse []map[string]bool
	// ignored tells that extenders ignore resources, which take the place of
	// NodeResourcesFit's before that is looked at.
	ignored bool
	// written is what --write-config-to writes; lists are the plugins of each profile by
	// extension point.
	written string
	lists   []*config.Plugins
}

// upstream loads files as kube-scheduler does with --config. It reaches no API server.
type upstream struct{ client kubernetes.Interface }

func newUpstream() (*upstream, error) {
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		return nil, err
	}
	return &upstream{client: c}, nil
}

// load goes through a file as kube-scheduler does: decode with defaults, validate, make a
// scheduler, write.
func (u *upstream) load(ctx context.Context, data []byte) theirs {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer cancel()
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return theirs{stage: decoding, err: err}
	}
	c, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return theirs{stage: decoding, err: fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", kind)}
	}
	c.APIVersion = kind.GroupVersion().String()
	out := theirs{stage: validating, inUse: inUse(c.Profiles), ignored: ignores(c.Extenders)}
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		out.err = err
		return out
	}
	out.stage = building
	s, completed, err := u.build(ctx, c)
	if err != nil {
		out.err = err
		return out
	}
	out.stage = running
	c.Profiles = completed
	for _, p := range c.Profiles {
		out.lists = append(out.lists, s.Profiles[p.SchedulerName].ListPlugins())
	}
	out.written, out.err = write(c)
	return out
}

// errCrashed is that kube-scheduler ends in a panic.
var errCrashed = errors.New("kube-scheduler crashes")

// build makes the scheduler, and captures the profiles as it completes them.
func (u *upstream) build(ctx context.Context,
	c *config.KubeSchedulerConfiguration,
) (s *scheduler.Scheduler, completed []config.KubeSchedulerProfile, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errCrashed, r)
		}
	}()
	s, err = scheduler.New(ctx, u.client, informers.NewSharedInformerFactory(u.client, 0), nil,
		func(name string) events.EventRecorderLogger { return profile.NewRecorderFactory(nobody{})(name) },
		scheduler.WithComponentConfigVersion(c.APIVersion),
		scheduler.WithProfiles(c.Profiles...),
		scheduler.WithPercentageOfNodesToScore(c.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(c.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(c.PodInitialBackoffSeconds),
		scheduler.WithExtenders(c.Extenders...),
		scheduler.WithParallelism(c.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) { completed = append(completed, p) }))
	return s, completed, err
}

// nobody hears events.
type nobody struct{ events.EventBroadcaster }

func (nobody) NewRecorder(*runtime.Scheme, string) events.EventRecorderLogger { return nil }

func ignores(list []config.Extender) bool {
	return slices.ContainsFunc(list, func(e config.Extender) bool {
		return slices.ContainsFunc(e.ManagedResources, func(r config.ExtenderManagedResource) bool { return r.IgnoredByScheduler })
	})
}

func inUse(profiles []config.KubeSchedulerProfile) []map[string]bool {
	var out []map[string]bool
	for _, p := range profiles {
		names := map[string]bool{}
		for _, name := range p.Plugins.Names() {
			names[name] = true
		}
		for _, e := range p.Plugins.MultiPoint.Enabled {
			names[e.Name] = true
		}
		out = append(out, names)
	}
	return out
}

// write encodes a configuration as kube-scheduler does.
func write(c *config.KubeSchedulerConfiguration) (string, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		return "", fmt.Errorf("no encoder for %s", runtime.ContentTypeYAML)
	}
	var out bytes.Buffer
	err := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(c, &out)
	return out.String(), err
}
