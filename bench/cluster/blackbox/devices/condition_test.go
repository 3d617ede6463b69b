package devices

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

const (
	ready  = "example.com/ready"
	broken = "example.com/broken"
)

// slow is a device that has to become ready.
func slow(name string) resourcev1.Device {
	return resourcev1.Device{Name: name, BindingConditions: []string{ready}, BindingFailureConditions: []string{broken}}
}

// conditionStories are about devices that have to become ready before the pod is bound.
func conditionStories() []story {
	last := slice("conditions", 0, named("plain")...)
	last.Name, last.Spec.Pool.Name = "conditions-plain", "plain"
	hastens := func(p *v1.Pod) *v1.Pod { p.Spec.SchedulerName = "hasty"; return p }
	return []story{
		{
			name: "conditions", nodes: 1, objects: objects(slice("conditions", 0, slow("slow")), last, claim("quick", one("conditions")), claim("slow", one("conditions"))),
			pods: pods(with(pod("conditions", "quick"), "quick")), check: checkConditions,
		},
		{
			name: "tainted", nodes: 2, objects: objects(slice("tainted", 0, slow("slow")), claim("tainted", one("tainted"))), pods: pods(with(pod("tainted", "tainted"), "tainted")),
			check: func(b *bed) {
				b.fallBack(func(s *resourcev1.ResourceSlice) {
					s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "example.com/failed", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
				})
			},
		},
		{
			name: "removed", nodes: 2, objects: objects(slice("removed", 0, slow("slow")), claim("removed", one("removed"))), pods: pods(with(pod("removed", "removed"), "removed")),
			check: func(b *bed) { b.fallBack(func(s *resourcev1.ResourceSlice) { s.Spec.Devices = nil }) },
		},
		{
			name: "too-slow", nodes: 2, objects: objects(slice("too-slow", 0, slow("slow")), claim("too-slow", one("too-slow"))), pods: pods(hastens(with(pod("too-slow", "too-slow"), "too-slow"))),
			check: func(b *bed) {
				b.Until("end in an error", inError(`running PreBind plugin "DynamicResources": device binding timeout`), "default/too-slow")
				b.Create(slice("too-slow", 1, named("plain")...))
				b.Bound("default/too-slow")
				b.has("too-slow", "r/too-slow-1/plain")
			},
		},
	}
}

// checkConditions has a device fail at first, and become ready at the second attempt.
func checkConditions(b *bed) {
	b.Bound("default/quick")
	b.has("quick", "r/plain/plain")
	b.Create(with(pod("conditions", "slow"), "slow"))
	isSlow := func(c *resourcev1.ResourceClaim) bool {
		return devicesOf(c) == "r/conditions-0/slow" && len(c.Status.Devices) == 0
	}
	first := b.untilClaim("slow", "has a device", isSlow)
	b.Await("an event tells of the wait", func(ctx context.Context) (string, bool) {
		list, err := b.Admin.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		b.Must(err)
		for _, e := range list.Items {
			if e.Regarding.Name == "slow" && e.Reason == "BindingConditionsPending" {
				return e.Note, e.Note == "waiting for binding conditions for device on node conditions-0"
			}
		}
		return "none", false
	})
	if p := b.Pods.Get("default/slow"); testbed.IsBound(p) {
		b.T.Errorf("the pod is bound before its device is ready: %s", testbed.Describe(p))
	}
	b.set("slow", "slow", broken)
	b.untilClaim("slow", "has its device once more", func(c *resourcev1.ResourceClaim) bool {
		return isSlow(c) && !c.Status.Allocation.AllocationTimestamp.Equal(first.Status.Allocation.AllocationTimestamp)
	})
	b.set("slow", "slow", ready)
	b.Bound("default/slow")
}

// fallBack has the story's first device fail for good, and another be there.
func (b *bed) fallBack(spoil func(*resourcev1.ResourceSlice)) {
	b.T.Helper()
	b.untilClaim(b.name, "has a device", func(c *resourcev1.ResourceClaim) bool { return devicesOf(c) == "r/"+node(b.name, 0)+"/slow" })
	s, err := b.Admin.ResourceV1().ResourceSlices().Get(b.T.Context(), node(b.name, 0), metav1.GetOptions{})
	b.Must(err)
	spoil(s)
	_, err = b.Admin.ResourceV1().ResourceSlices().Update(b.T.Context(), s, metav1.UpdateOptions{})
	b.Must(err)
	b.Create(slice(b.name, 1, named("plain")...))
	b.set(b.name, "slow", broken)
	b.Bound("default/" + b.name)
	b.has(b.name, "r/"+node(b.name, 1)+"/plain")
}

// set says of a claim's only device what a driver does.
func (b *bed) set(claim, device, condition string) {
	b.T.Helper()
	b.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c := b.claim(b.T.Context(), claim)
		r := c.Status.Allocation.Devices.Results[0]
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: device, Conditions: []metav1.Condition{{
			Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(), Reason: "Test", Message: "a story",
		}}}}
		_, err := b.Admin.ResourceV1().ResourceClaims("default").UpdateStatus(b.T.Context(), c, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			b.T.Log(err)
		}
		return err
	}))
}

// inError tells whether an attempt has ended in an error whose text begins so.
func inError(text string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		if p == nil {
			return false
		}
		c := testbed.ScheduledCondition(p)
		return c != nil && c.Reason == v1.PodReasonSchedulerError && strings.Contains(c.Message, text)
	}
}
