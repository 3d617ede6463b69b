package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/cmd/internal/openb"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// manifests is a folder of well-known projects' workloads, beside the repository.
const manifests = "../../../../shared/data/manifests"

// TestRealManifests reads what people wrote: most of it as it is, and with
// --skip-invalid all but what no API server would take.
func TestRealManifests(t *testing.T) {
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Skipf("the manifests are not at %s", manifests)
	}
	wrong := map[string]string{
		"karpenter-workloads.yaml":  "securityContext.allowPrivilegedEscalation: unknown field",
		"metrics-server.yaml":       "metrics-server.yaml:80: Deployment kube-system/metrics-server: spec.template.spec.containers: Required value",
		"nvidia-device-plugin.yaml": "given twice; first at",
	}
	for _, file := range files {
		name := filepath.Base(file)
		var errs bytes.Buffer
		s := Streams{Err: &errs, Env: func(string) string { return "" }}
		_, err := readInput(s, inputRequest{Paths: []string{file}, Demo: true})
		if want := wrong[name]; want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		in, err := readInput(s, inputRequest{Paths: []string{file}, SkipInvalid: true, Create: true})
		if err != nil {
			t.Errorf("%s: with invalid objects skipped got %v", name, err)
			continue
		}
		known := map[objects.Ref]bool{}
		for _, obj := range in.Cluster {
			known[objects.RefOf(obj)] = true
		}
		for _, p := range in.Pods {
			if by := p.OwnerReferences[0]; selects(by.Kind) && !known[objects.Ref{Kind: objects.Kind(by.Kind), Namespace: p.Namespace, Name: by.Name}] {
				t.Errorf("%s: pod %s/%s is owned by %s %s, which is not there", name, p.Namespace, p.Name, by.Kind, by.Name)
			}
			for _, v := range p.Spec.Volumes {
				if c := v.PersistentVolumeClaim; c != nil && strings.HasSuffix(c.ClaimName, p.Name) && !known[objects.Ref{Kind: objects.KindPersistentVolumeClaim, Namespace: p.Namespace, Name: c.ClaimName}] {
					t.Errorf("%s: claim %s of pod %s/%s is not there", name, c.ClaimName, p.Namespace, p.Name)
				}
			}
			if p.UID == "" || p.Spec.Priority == nil || p.Spec.SchedulerName == "" || len(p.OwnerReferences) != 1 {
				t.Errorf("%s: got pod %v, want one with a UID, a priority, a scheduler and an owner", name, p)
			}
		}
	}
}

// selects tells whether pods are spread by the selector of owners of a kind.
func selects(kind string) bool {
	return slices.Contains([]objects.Kind{objects.KindReplicaSet, objects.KindStatefulSet, objects.KindReplicationController}, objects.Kind(kind))
}

// TestASimulationCreatesItsObjects holds that an input is completed as an API server and its
// controllers would, and that what comes from a cluster is left as it is.
func TestASimulationCreatesItsObjects(t *testing.T) {
	const text = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/disks
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop, labels: {hash: h1}}
spec:
  containers: [{name: c}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [hash], labelSelector: {}}
  volumes:
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: shop, uid: given, labels: {hash: h2}}
spec:
  nodeName: n1
  containers: [{name: c}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [hash], labelSelector: {}}
  volumes:
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: b-scratch, namespace: shop, uid: kept}
spec: {accessModes: [ReadWriteOnce], storageClassName: slow, resources: {requests: {storage: 2Gi}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: x}}
`
	in, err := readInput(Streams{In: strings.NewReader(text), Err: io.Discard}, inputRequest{Paths: []string{"-"}, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, obj := range in.Cluster {
		line := objects.RefOf(obj).String()
		if c, ok := obj.(*v1.PersistentVolumeClaim); ok {
			line += fmt.Sprintf(" of class %s, owned by %d", *c.Spec.StorageClassName, len(c.OwnerReferences))
		}
		if obj.GetUID() == "" {
			line += " without a uid"
		}
		got = append(got, line)
	}
	want := []string{
		"Namespace shop", "StorageClass fast",
		"PersistentVolumeClaim shop/b-scratch of class slow, owned by 0", "PersistentVolumeClaim shop/a-scratch of class fast, owned by 1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("objects of the cluster (-want +got):\n%s", d)
	}
	merged := func(i int) int {
		return len(in.Pods[i].Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions)
	}
	if merged(0) != 1 || merged(1) != 0 {
		t.Errorf("requirements made of label keys: got %d of the new pod, %d of the one on a node, want 1 and 0", merged(0), merged(1))
	}
}

// TestASimulationTendsClaims holds that claims are made from templates, and that those of pods that are gone are free.
func TestASimulationTendsClaims(t *testing.T) {
	const text = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}, {name: none, resourceClaimTemplateName: none}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, uid: u1}
spec: {nodeName: n1, containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]}
status: {resourceClaimStatuses: [{name: gpu, resourceClaimName: runs-gpu-x}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ended, uid: u2}
spec: {nodeName: n1, containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimName: shared}]}
status: {phase: Succeeded}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: runs-gpu-x, ownerReferences: [{apiVersion: v1, kind: Pod, name: runs, uid: u1, controller: true}], finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {}, reservedFor: [{resource: pods, name: runs, uid: u1}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gone-gpu-x, ownerReferences: [{apiVersion: v1, kind: Pod, name: gone, uid: u3, controller: true}], finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {}, reservedFor: [{resource: pods, name: gone, uid: u3}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {}, reservedFor: [{resource: pods, name: ended, uid: u2}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: by-hand}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {}}
`
	in, err := readInput(Streams{In: strings.NewReader(text), Err: io.Discard}, inputRequest{Paths: []string{"-"}, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, obj := range in.Cluster {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			allocated, users := c.Status.Allocation != nil, len(c.Status.ReservedFor)
			got = append(got, fmt.Sprintf("%s allocated=%t users=%d uid=%t", c.Name, allocated, users, c.UID != ""))
		}
	}
	statuses := in.Pods[0].Status.ResourceClaimStatuses
	if len(statuses) != 2 || statuses[0].Name != "gpu" {
		t.Fatalf("statuses of the new pod: got %v, want two", statuses)
	}
	want := []string{
		"runs-gpu-x allocated=true users=1 uid=true", "shared allocated=false users=0 uid=true", "by-hand allocated=true users=0 uid=true",
		*statuses[0].ResourceClaimName + " allocated=false users=0 uid=true",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("claims (-want +got):\n%s", d)
	}
}

// TestReadInputTwiceGivesTheSame holds that runs can be repeated: the same names,
// UIDs and order.
func TestReadInputTwiceGivesTheSame(t *testing.T) {
	const text = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 50, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}}`
	read := func() *Input {
		in, err := readInput(Streams{In: strings.NewReader(text), Err: io.Discard}, inputRequest{Paths: []string{"-"}, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if d := cmp.Diff(read(), read(), cmpopts.IgnoreUnexported(Input{})); d != "" {
		t.Errorf("the second time gave something else:\n%s", d)
	}
}

// BenchmarkReadInput reads the demo cluster, 9,675 objects, as YAML and as JSON.
func BenchmarkReadInput(b *testing.B) {
	nodes, pods := openb.Objects(openb.Demo(1))
	for _, format := range []string{"yaml", "json"} {
		var text bytes.Buffer
		if err := openb.Write(&text, format, nodes, pods); err != nil {
			b.Fatal(err)
		}
		b.Run(format, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				s := Streams{In: strings.NewReader(text.String()), Out: io.Discard, Err: io.Discard}
				in, err := readInput(s, inputRequest{Paths: []string{"-"}, Create: true})
				if err != nil || len(in.Pods) != len(pods) {
					b.Fatalf("got %v, %v", in, err)
				}
			}
		})
	}
}

// running is what a cluster says of a Deployment of six replicas: pods, and its ReplicaSet where that is asked for.
func running(kinds ...string) string {
	const head = "metadata: {name: %s, namespace: shop, uid: %s, labels: {app: web, pod-template-hash: 5d}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: %s, controller: true}]}"
	const template = "spec: {containers: [{name: c}]}"
	all := map[string]string{
		"Pod":        fmt.Sprintf("{apiVersion: v1, kind: Pod, "+head+", spec: {nodeName: node, containers: [{name: c}]}}", "web-5d-x", "u1", "ReplicaSet", "web-5d", "u2"),
		"ReplicaSet": fmt.Sprintf("{apiVersion: apps/v1, kind: ReplicaSet, "+head+", spec: {replicas: 6, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, "+template+"}}}", "web-5d", "u2", "Deployment", "web", "u3"),
		"Set":        fmt.Sprintf("{apiVersion: v1, kind: Pod, "+head+", spec: {nodeName: node, containers: [{name: c}]}}", "db-0", "u4", "StatefulSet", "db", "u5"),
		"Job":        fmt.Sprintf("{apiVersion: batch/v1, kind: Job, "+head+", spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}", "nightly-1", "u6", "CronJob", "nightly", "u7"),
	}
	var docs []string
	for _, kind := range kinds {
		docs = append(docs, all[kind])
	}
	return strings.Join(docs, "\n---\n")
}

// A workload that a cluster runs is not what the chart makes of it: an error tells both places. The cluster's own
// object, and a workload that nothing runs of, are read.
func TestAChangeOfWhatRunsIsAnError(t *testing.T) {
	const web = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop%s}, spec: {replicas: 10, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}"
	const db = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c}]}}}}"
	const nightly = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly, namespace: shop}, spec: {schedule: '1 1 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}}}"
	for name, x := range map[string]struct {
		cluster, chart, there string // there is empty where the files are read
		pods                  int    // of the files, without a chart that is left out
	}{
		"pods":                      {cluster: running("Pod"), chart: fmt.Sprintf(web, ""), there: "Deployment shop/web: runs in the cluster already, with Pod shop/web-5d-x at ", pods: 1},
		"pods and their ReplicaSet": {cluster: running("ReplicaSet", "Pod"), chart: fmt.Sprintf(web, ""), there: "Deployment shop/web: runs in the cluster already, with ReplicaSet shop/web-5d at ", pods: 6},
		"a StatefulSet's":           {cluster: running("Set"), chart: db, there: "StatefulSet shop/db: runs in the cluster already, with Pod shop/db-0 at ", pods: 1},
		"a CronJob's Job":           {cluster: running("Job"), chart: nightly, there: "CronJob shop/nightly: runs in the cluster already, with Job shop/nightly-1 at ", pods: 1},
		"the cluster's Deployment":  {cluster: running("ReplicaSet", "Pod"), chart: fmt.Sprintf(web, ", uid: u3"), pods: 6},
		"another's pods":            {cluster: running("Set"), chart: fmt.Sprintf(web, ""), pods: 11},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := []string{filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "chart.yaml")}
			for i, text := range []string{x.cluster, x.chart} {
				if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in, err := readInput(Streams{Err: io.Discard}, inputRequest{Paths: files, Create: true})
			switch {
			case x.there == "" && (err != nil || len(in.Pods) != x.pods):
				t.Errorf("got %v and %v, want %d pods", in, err, x.pods)
			case x.there != "" && (err == nil || !strings.Contains(err.Error(), files[1]+":1: "+x.there+files[0])):
				t.Errorf("got %v, want an error that tells %q of both files", err, x.there)
			}
			var told bytes.Buffer
			in, err = readInput(Streams{Err: &told}, inputRequest{Paths: files, Create: true, SkipInvalid: true})
			if err != nil || len(in.Pods) != x.pods || !strings.Contains(told.String(), x.there) {
				t.Errorf("skipped: got %v, %v and %q, want %d pods and a word of it", in, err, told.String(), x.pods)
			}
		})
	}
}

func TestASimulationWithoutNodesIsAnError(t *testing.T) {
	s := Streams{In: strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: gone, containers: [{name: c}]}}"), Err: io.Discard, Out: io.Discard}
	err := runSimulate(t.Context(), s, SimulateOptions{Sharding: Sharding{Cluster: "test"}, Files: []string{"-"}, Output: "json"})
	if err == nil || !strings.Contains(err.Error(), "no node in the input") {
		t.Errorf("got %v, want an error that there is no node", err)
	}
}

// What a chart makes is filled in as the API server's admission would: by the classes and limit ranges of the input. A pod that it
// would not take is an error at the workload's own field, once.
func TestAdmissionHasItsSay(t *testing.T) {
	const text = `
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000, preemptionPolicy: Never}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: small, namespace: shop}, spec: {limits: [{type: Container, max: {cpu: 2}, default: {cpu: 2}, defaultRequest: {cpu: 500m}}]}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {memory: 120Mi}}, scheduling: {nodeSelector: {kata: "yes"}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {priorityClassName: high, runtimeClassName: kata, containers: [{name: c%s}]}}}}
`
	read := func(more string) (*Input, error) {
		s := Streams{In: strings.NewReader(fmt.Sprintf(text, more)), Err: io.Discard}
		return readInput(s, inputRequest{Paths: []string{"-"}, Create: true})
	}
	in, err := read("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range in.Pods {
		got := fmt.Sprintf("%d %s %s %s %s", *p.Spec.Priority, *p.Spec.PreemptionPolicy, p.Spec.Overhead.Memory(), p.Spec.NodeSelector["kata"], p.Spec.Containers[0].Resources.Requests.Cpu())
		if want := "1000 Never 120Mi yes 500m"; got != want {
			t.Errorf("pod %s: got %s, want %s", p.Name, got, want)
		}
	}
	_, err = read(", resources: {limits: {cpu: 3}}")
	want := "standard input:8: Deployment shop/web: spec.template.spec.containers[0].resources.limits[cpu]: LimitRange small: 3 is more than 2"
	if err == nil || err.Error() != want || len(in.Pods) != 3 {
		t.Errorf("got %v and %d pods, want %s and 3", err, len(in.Pods), want)
	}
}
