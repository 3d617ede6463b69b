package api_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// oneOfEach is a manifest for each kind, the least that is valid, with the name "a".
func oneOfEach() map[objects.Kind]string {
	const owner = `"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}}}}`
	fields := map[objects.Kind]string{
		objects.KindNode:                  `"spec":{}`,
		objects.KindPod:                   `"spec":{"containers":[{"name":"c"}]}`,
		objects.KindNamespace:             `"spec":{}`,
		objects.KindService:               `"spec":{"selector":{"app":"web"}}`,
		objects.KindReplicationController: `"spec":{"selector":{"app":"web"},"template":{"metadata":{"labels":{"app":"web"}}}}`,
		objects.KindReplicaSet:            owner,
		objects.KindStatefulSet:           owner,
		objects.KindPersistentVolume:      `"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"csi":{"driver":"d","volumeHandle":"h"}}`,
		objects.KindPersistentVolumeClaim: `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`,
		objects.KindStorageClass:          `"provisioner":"d"`,
		objects.KindCSINode:               `"spec":{"drivers":[{"name":"d","nodeID":"i"}]}`,
		objects.KindCSIDriver:             `"spec":{}`,
		objects.KindCSIStorageCapacity:    `"storageClassName":"a"`,
		objects.KindVolumeAttachment:      `"spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"a"}}`,
		objects.KindPodDisruptionBudget:   `"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}`,
		objects.KindDeviceClass:           `"spec":{}`,
		objects.KindResourceSlice:         `"spec":{"driver":"d","allNodes":true,"pool":{"name":"a","generation":1,"resourceSliceCount":1}}`,
		objects.KindResourceClaim:         `"spec":{"devices":{}}`,
		objects.KindResourceClaimTemplate: `"spec":{"spec":{"devices":{}}}`,
		objects.KindPodGroup:              `"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}`,
		objects.KindPriorityClass:         `"value":7`,
		objects.KindLimitRange:            `"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}`,
		objects.KindRuntimeClass:          `"handler":"h"`,
	}
	for kind, f := range fields {
		fields[kind] = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a"},%s}`, kind.GroupVersion(), kind, f)
	}
	return fields
}

// TestEveryKindPassesThroughTheAPI holds that the wire's rules, the store and the watch know
// each kind that package objects does.
func TestEveryKindPassesThroughTheAPI(t *testing.T) {
	r := leader(t)
	manifests := oneOfEach()
	for _, kind := range objects.Kinds() {
		ref := &pb.ObjectRef{Kind: string(kind), Name: "a"}
		if kind.Namespaced() {
			ref.Namespace = "default"
		}
		before, err := r.store.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		watch, err := r.Watch(t.Context(), &pb.WatchRequest{Kind: string(kind), AfterRevision: uint64(before)})
		if err != nil {
			t.Fatal(err)
		}
		revision := r.apply(t, manifests[kind])
		got, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e := got.GetEvents(); len(e) != 1 || !proto.Equal(e[0].GetObject().GetRef(), ref) || got.GetRevision() != revision {
			t.Errorf("watch of %s: got %v at %d, want %v at %d", kind, e, got.GetRevision(), ref, revision)
		}
		list, err := r.ListObjects(t.Context(), &pb.ListObjectsRequest{Kind: string(kind), Namespace: "default", Name: "a"})
		if err != nil || len(list.GetObjects()) != 1 || !proto.Equal(list.GetObjects()[0].GetRef(), ref) {
			t.Errorf("list of %s: got %v, %v, want %v", kind, list, err, ref)
		}
		again, err := r.Apply(t.Context(), &pb.ApplyRequest{Objects: []*pb.Object{{Ref: ref, Raw: []byte(manifests[kind])}}})
		if err != nil || again.GetOutcomes()[0] != pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
			t.Errorf("apply of %s again: got %v, %v, want it unchanged", kind, again.GetOutcomes(), err)
		}
	}
	all, err := r.store.Load(t.Context())
	if err != nil || len(all.Nodes) != 1 || len(all.Pods) != 1 || len(all.Cluster) != len(manifests)-2 {
		t.Errorf("got %d nodes, %d pods, %d others, %v, want 1, 1, %d", len(all.Nodes), len(all.Pods), len(all.Cluster), err, len(manifests)-2)
	}
	for _, kind := range objects.Kinds() {
		ref := &pb.ObjectRef{Kind: string(kind), Name: "a"}
		if kind.Namespaced() {
			ref.Namespace = "default"
		}
		gone, err := r.Delete(t.Context(), &pb.DeleteRequest{Refs: []*pb.ObjectRef{ref}})
		if err != nil || !gone.GetDeleted()[0] {
			t.Errorf("delete of %s: got %v, %v, want true", kind, gone, err)
		}
	}
}
