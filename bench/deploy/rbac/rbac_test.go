package rbac

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// run is the bed, with a coordinator under the minimal roles.
type run struct{ *rig.Rig }

// byAdmission are permissions that the API server looks for while it serves another request, so that its audit log has none of them:
// the request that it refuses without them.
var byAdmission = map[string]string{
	"update resourceclaims/binding.resource.k8s.io": "update resourceclaims/status.resource.k8s.io",
	"patch resourceclaims/binding.resource.k8s.io":  "patch resourceclaims/status.resource.k8s.io",
}

// ofPodGroups are permissions that nobody asks for while the feature gate GenericWorkload is off, as it is here.
var ofPodGroups = []string{
	"list podgroups.scheduling.k8s.io", "watch podgroups.scheduling.k8s.io", "patch podgroups/status.scheduling.k8s.io",
}

// TestTheMinimalRolesAreWhatIsUsed drives a coordinator through all that it asks the API server for.
func TestTheMinimalRolesAreWhatIsUsed(t *testing.T) {
	r := &run{rig.New(t, testbed.Config{APIServerArgs: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"}})}
	r.Controllers("persistentvolume", "provisioner", "resourceclaim", "kubelet")
	r.Create(build.Node("n").CPU("4").Pods("100").Label(v1.LabelHostname, "n").Obj())
	r.devices()
	worker := r.Worker("worker")
	ours := r.Coordinator(testbed.Scheduler{})
	standby := r.Coordinator(testbed.Scheduler{Name: "standby"}) // it follows the Lease

	r.Create(build.Pod("plain").CPU("100m").Obj(), build.Pod("static").CPU("100m").Node("n").Obj())
	r.Bound("default/plain")
	r.volumes()
	r.preempts()
	r.Create(build.Pod("waits").CPU("10000").Obj())
	r.Unschedulable("default/waits")
	r.withoutAllocating()
	r.withoutUnreserving()
	r.conflicts()
	r.asks(t, ours)
	ours.Terminate()
	r.Create(build.Pod("next").CPU("100m").Obj())
	r.Bound("default/next")
	r.asks(t, standby)

	audit := r.Audited()
	granted := granted(t)
	used := used(audit, granted)
	if more := used.Difference(granted); len(more) > 0 {
		t.Errorf("asked for, and not granted: %q", sets.List(more))
	}
	spare := granted.Difference(used)
	for permission := range byAdmission {
		if !spare.Has(permission) {
			t.Errorf("%s: want it granted, and in no request", permission)
		}
		spare.Delete(permission)
	}
	for _, permission := range ofPodGroups {
		if !spare.Has(permission) {
			t.Errorf("%s: want it granted, and in no request with the gate off", permission)
		}
		spare.Delete(permission)
	}
	if len(spare) > 0 {
		t.Errorf("granted, and never asked for: %q", sets.List(spare))
	}
	if denied := testbed.Denied(audit); len(denied) > 0 {
		t.Errorf("denied: %q", denied)
	}
	for _, line := range worker.Tail(1000) {
		if strings.Contains(line, r.APIServer.Address) {
			t.Errorf("a worker that knows the API server: %s", line)
		}
	}
}

// devices are ten of a class, which serves an extended resource too.
func (r *run) devices() {
	class, slice, node, resource := &resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, "n", "example.com/gpu"
	class.Name, slice.Name = "gpu", "gpus"
	class.Spec.ExtendedResourceName = &resource
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1},
	}
	for i := range 100 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	r.Create(class, slice)
}

// claimed is a pod with a claim of its name, extended one that asks for the extended resource.
func (r *run) claimed(name string) { r.Create(claim(name), claiming(name)) }

func claim(name string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{}
	claim.Name, claim.Namespace = name, "default"
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	return claim
}

func claiming(name string) *v1.Pod {
	p := build.Pod(name).CPU("10m").Obj()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	return p
}

func (r *run) extended(name string) {
	p := build.Pod(name).CPU("10m").Request("example.com/gpu", "1").Obj()
	p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/gpu": p.Spec.Containers[0].Resources.Requests["example.com/gpu"]}
	r.Create(p)
}

// volume is one that is there.
func volume(name, class string) *v1.PersistentVolume {
	v := build.Volume(name, class).CSI("disk.example", name).Obj()
	v.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	return v
}

// volumes are one that is there, and one that is made for its pod.
func (r *run) volumes() {
	r.Create(
		build.WaitingClass("there", ""), volume("there", "there"), build.Claim("there", "there").Obj(), build.Pod("there").CPU("10m").Claim("there").Obj(),
		build.WaitingClass("made", testbed.Provisioner), build.Claim("made", "made").Obj(), build.Pod("made").CPU("10m").Claim("made").Obj(),
	)
	r.Bound("default/there")
	r.Bound("default/made")
}

func (r *run) preempts() {
	r.Create(build.Pod("low").CPU("3").Priority(1).Obj())
	r.Bound("default/low")
	r.Create(build.Pod("high").CPU("3").Priority(1000).Obj())
	r.Bound("default/high")
	r.Until("are gone", testbed.IsGone, "default/low")
}

// withoutAllocating takes what the API server looks for away from who allocates claims: pods wait, and are bound once it is back.
func (r *run) withoutAllocating() {
	r.T.Helper()
	const binding = "update resourceclaims/binding"
	r.without(binding)
	r.extended("extended")
	r.claimed("claimed")
	r.awaitAnswer(byAdmission[binding+".resource.k8s.io"], http.StatusUnprocessableEntity)
	r.restore(binding)
	r.Bound("default/extended")
	r.Bound("default/claimed")
}

// withoutUnreserving refuses binds, so that claims are given back, and takes what the API server looks for then.
func (r *run) withoutUnreserving() {
	r.T.Helper()
	const binding = "patch resourceclaims/binding"
	r.refuseBinds()
	r.without(binding)
	r.claimed("refused-claimed")
	r.extended("refused-extended")
	r.Create(build.Pod("refused-plain").CPU("10m").Obj())
	r.awaitAnswer(byAdmission[binding+".resource.k8s.io"], http.StatusUnprocessableEntity)
	r.restore(binding)
	r.awaitAnswer(byAdmission[binding+".resource.k8s.io"], http.StatusOK)
	r.awaitAnswer("delete resourceclaims.resource.k8s.io", http.StatusOK)
	r.awaitAnswer("patch events.events.k8s.io", http.StatusOK) // of attempts of refused-plain, which end alike
	r.Must(r.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(r.Context(), "refused", metav1.DeleteOptions{}))
	r.Bound("default/refused-claimed")
	r.Bound("default/refused-extended")
	r.Bound("default/refused-plain")
}

// refuseBinds has the API server refuse binds of pods whose names begin with refused-.
func (r *run) refuseBinds() {
	r.T.Helper()
	fail, policies := admissionv1.Fail, r.Admin.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(r.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refused"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "!object.metadata.name.startsWith('refused-')", Message: "nobody is let in"}},
		},
	}, metav1.CreateOptions{})
	r.Must(err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(r.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refused"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "refused", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	r.Must(err)
	nobody := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "refused-", Namespace: "default"}, Target: v1.ObjectReference{Kind: "Node", Name: "n"}}
	r.Await("binds are refused", func(ctx context.Context) (string, bool) {
		err := r.Admin.CoreV1().Pods("default").Bind(ctx, nobody, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return fmt.Sprint(err), apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	})
}

// conflicts has claims and volumes written by somebody else while their pods are bound, until a coordinator has read one of each anew.
func (r *run) conflicts() {
	r.T.Helper()
	core, claims := r.Admin.CoreV1(), r.Admin.ResourceV1().ResourceClaims("default")
	for n := 0; !r.answered("get resourceclaims.resource.k8s.io", http.StatusOK) || !r.answered("get persistentvolumes", http.StatusOK) ||
		!r.answered("get persistentvolumeclaims", http.StatusOK); n++ {
		name, there, made := fmt.Sprintf("busy-%d", n), fmt.Sprintf("busy-there-%d", n), fmt.Sprintf("busy-made-%d", n)
		r.Create(volume(there, name), build.WaitingClass(name, ""), build.Claim(there, name).Obj(), build.Claim(made, "made").Obj())
		r.Create(claim(name))
		var busy sync.WaitGroup
		for _, patch := range []func(context.Context, []byte) error{
			func(ctx context.Context, patch []byte) error {
				_, err := claims.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
			func(ctx context.Context, patch []byte) error {
				_, err := core.PersistentVolumes().Patch(ctx, there, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
			func(ctx context.Context, patch []byte) error {
				_, err := core.PersistentVolumeClaims("default").Patch(ctx, made, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
		} {
			busy.Go(func() {
				for i := range 200 {
					if err := patch(r.T.Context(), fmt.Appendf(nil, `{"metadata": {"annotations": {"busy": "%d"}}}`, i)); err != nil {
						r.T.Errorf("busy: %v", err)
						return
					}
				}
			})
		}
		r.Create(claiming(name), build.Pod(there).CPU("10m").Claim(there).Obj(), build.Pod(made).CPU("10m").Claim(made).Obj())
		busy.Wait()
		for _, pod := range []string{name, there, made} {
			r.Bound("default/" + pod)
		}
	}
}

// asks has the API server asked who asks, and a pod explained that was never pending here.
func (r *run) asks(t *testing.T, p *testbed.SchedulerProcess) {
	t.Helper()
	// Administrators may ask for everything, so that nobody is asked about them.
	for token, want := range map[string]int{r.AdminToken(): http.StatusOK, r.SchedulerToken(): http.StatusForbidden} {
		if code, _, err := p.Get(r.Context(), "/metrics", token); err != nil || code != want {
			t.Errorf("/metrics: got %d, %v, want %d", code, err, want)
		}
	}
	program, err := r.Shardsched(r.Context())
	r.Must(err)
	if out, err := exec.CommandContext(r.Context(), program, "explain", "pod", "default/static", "--address="+p.Listen).CombinedOutput(); err != nil {
		t.Errorf("explain: %v\n%s", err, out)
	}
}

// awaitAnswer waits until the coordinator has asked for something and got an answer.
func (r *run) awaitAnswer(request string, code int32) {
	r.T.Helper()
	r.Await(fmt.Sprintf("%s is answered with %d", request, code), func(context.Context) (string, bool) {
		time.Sleep(200 * time.Millisecond) // the audit log is read as a whole
		return "", r.answered(request, code)
	})
}

// answered tells whether it has.
func (r *run) answered(request string, code int32) bool {
	r.T.Helper()
	for _, e := range r.Audited() {
		if o := e.ObjectRef; o != nil && e.User.Username == testbed.CoordinatorUser && e.ResponseStatus != nil &&
			e.ResponseStatus.Code == code && what(e.Verb, o.APIGroup, o.Resource, o.Subresource, "") == request {
			return true
		}
	}
	return false
}
