package compile

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// drawVolumes gives a pod some volumes, of few different ones.
func drawVolumes(t *rapid.T, p *v1.Pod) {
	for i := range rapid.IntRange(0, 3).Draw(t, "volumes") {
		v := v1.Volume{Name: fmt.Sprint("v", i)}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		case 1:
			v.Ephemeral = &v1.EphemeralVolumeSource{}
		case 2:
			v.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "disk"), ReadOnly: rapid.Bool().Draw(t, "ro")}
		case 3:
			v.RBD = &v1.RBDVolumeSource{CephMonitors: rapid.SampledFrom([][]string{{"m"}, {"m", "n"}}).Draw(t, "monitors"), RBDImage: "i"}
		default:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: rapid.SampledFrom([]string{"c0", "c1", "c2", "missing"}).Draw(t, "claim")}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	if rapid.Bool().Draw(t, "elsewhere") {
		p.Namespace = "elsewhere"
	}
	p.UID = types.UID(rapid.SampledFrom([]string{"u", "w"}).Draw(t, "uid"))
	if rapid.IntRange(0, 3).Draw(t, "isolated") == 0 {
		users := rapid.Bool().Draw(t, "users")
		p.Spec.HostNetwork, p.Spec.HostUsers = rapid.Bool().Draw(t, "network"), &users
	}
}

// looking counts what is looked at of free volumes.
type looking struct {
	*store
	looks int
}

func (l *looking) VolumesOf(class string) iter.Seq[*v1.PersistentVolume] {
	return func(yield func(*v1.PersistentVolume) bool) {
		for pv := range l.store.VolumesOf(class) {
			if l.looks++; !yield(pv) {
				return
			}
		}
	}
}

// waitingFor is a storage of free volumes, each on a node of its own, and some claims of their class.
func waitingFor(volumes, claims int) (*looking, []*v1.PersistentVolumeClaim) {
	s := &looking{store: newStore()}
	for i := range volumes {
		pv := build.Volume(fmt.Sprint("pv", i), "wait").Size("1Gi").On(v1.LabelHostname, fmt.Sprint("n", i)).Obj()
		pv.Status.Phase = v1.VolumeAvailable
		s.volumes[pv.Name] = pv
	}
	var out []*v1.PersistentVolumeClaim
	for i := range claims {
		out = append(out, build.Claim(fmt.Sprint("c", i), "wait").Size("1Gi").Obj())
	}
	return s, out
}

// A claim that a pod mounts many times is asked for once, and needs as many volumes as it has mounts.
func TestAClaimLooksForVolumesOnce(t *testing.T) {
	s, claims := waitingFor(100, 1)
	q, err := bindingQuery(nil, slices.Repeat(claims, 50), s, newAffinities())
	if err != nil || s.looks != 100 || len(q.Claims) != 50 || len(q.Claims[49].Volumes) != 100 {
		t.Errorf("got %d looks, %d claims and error %v, want 100, 50 and none", s.looks, len(q.GetClaims()), err)
	}
	p := &v1.Pod{}
	for i := range 50 {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint(i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c0"}}})
	}
	s.volumes["bound"] = build.Volume("bound", "wait").Label(v1.LabelTopologyZone, "z").On("a", "b").Obj()
	claims[0].Spec.VolumeName = "bound"
	claims[0].Annotations = map[string]string{storage.AnnBindCompleted: "yes"}
	s.claims["/c0"] = claims[0]
	list := podClaims(p, s)
	bound, _, _ := boundAndUnbound(list, s)
	zones, no := zoneRequirements(list, s)
	if len(bound) != 1 || len(zones) != 1 || no != nil {
		t.Errorf("bound: got %d claims and %d zones (%v), want one of each", len(bound), len(zones), no)
	}
}

// A pod whose claims look at too many volumes fails by itself, and looks at no more. Its first claim has no bound.
func TestClaimsThatLookAtTooMuch(t *testing.T) {
	s, claims := waitingFor(4000, maxLooks/4000+2)
	for name, list := range map[string][]*v1.PersistentVolumeClaim{"different": claims, "one": slices.Repeat(claims[:1], len(claims))} {
		s.looks = 0
		if _, err := bindingQuery(nil, list[:len(list)-1], s, newAffinities()); err != nil {
			t.Errorf("%s: within the bound: got error %v, want none", name, err)
		}
		s.looks = 0
		_, err := bindingQuery(nil, list, s, newAffinities())
		if err != errLooks || s.looks > maxLooks+4001 {
			t.Errorf("%s: got %d looks and error %v, want at most %d and %v", name, s.looks, err, maxLooks+4001, errLooks)
		}
	}
}

func TestClaimsThatAreTooMany(t *testing.T) {
	s, claims := waitingFor(1, 1)
	for mounts, want := range map[int]error{maxUnbound: nil, maxUnbound + 1: errUnbound} {
		if _, err := bindingQuery(nil, slices.Repeat(claims, mounts), s, newAffinities()); err != want {
			t.Errorf("%d mounts: got error %v, want %v", mounts, err, want)
		}
	}
}

// drawStorage changes something about the storage.
func drawStorage(t *rapid.T, s *store) {
	s.version++
	name := rapid.SampledFrom([]string{"c0", "c1", "c2", "p-v0"}).Draw(t, "which")
	class := rapid.SampledFrom([]string{"", "wait", "now"}).Draw(t, "class")
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: rapid.SampledFrom([]string{"default", "elsewhere"}).Draw(t, "namespace"), Name: name}}
	c.Spec.StorageClassName = &class
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{rapid.SampledFrom([]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}).Draw(t, "mode")}
	if rapid.Bool().Draw(t, "bound") {
		c.Spec.VolumeName = rapid.SampledFrom([]string{"pv0", "pv1", "gone"}).Draw(t, "volume")
		c.Annotations = map[string]string{storage.AnnBindCompleted: "yes"}
	}
	if name == "p-v0" {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{UID: "u", Controller: &yes}}
	}
	s.claims[c.Namespace+"/"+name] = c
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"pv0", "pv1"}).Draw(t, "which volume")}}
	pv.Spec.StorageClassName, pv.Status.Phase = "wait", v1.VolumeAvailable
	if rapid.Bool().Draw(t, "csi") {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: pv.Name}
	}
	if rapid.Bool().Draw(t, "local") {
		term := build.Labels(build.Match("zone", v1.NodeSelectorOpIn, "x"))
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
	}
	s.volumes[pv.Name] = pv
}

func volumeProfile(t rapid.TB) *Profile {
	prof, err := newProfile(ProfileConfig{Name: "volumes", Filters: volumePlugins()})
	if err != nil {
		t.Fatal(err)
	}
	return prof
}

func newWaitingStore() *store {
	s := newStore()
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	s.classes["wait"] = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "wait"}, Provisioner: "d", VolumeBindingMode: &wait}
	s.classes["now"] = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: "d", VolumeBindingMode: &now}
	return s
}

// A compiler that has seen many pods says of the next one what a new compiler says: the
// signature holds all that is read of the pod, and a change of the storage shows.
func TestVolumesAreCompiledAnew(t *testing.T) {
	prof := volumeProfile(t)
	rapid.Check(t, func(t *rapid.T) {
		c, w := New(), stored{EmptyCluster(still{}), newWaitingStore()}
		for range rapid.IntRange(1, 30).Draw(t, "pods") {
			if rapid.IntRange(0, 2).Draw(t, "change") == 0 {
				drawStorage(t, w.store)
			}
			p := build.Pod("p").Obj()
			drawVolumes(t, p)
			got, gotErr := c.Class(p, prof, w)
			want, wantErr := New().Class(p, prof, w)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("got error %v, want %v", gotErr, wantErr)
			}
			if gotErr != nil {
				continue
			}
			if definition(got) != definition(want) || got.Volatile != want.Volatile || fmt.Sprint(got.Rejected) != fmt.Sprint(want.Rejected) {
				t.Fatalf("got class %v volatile %t %v, want %v %t %v", got.Query, got.Volatile, got.Rejected, want.Query, want.Volatile, want.Rejected)
			}
			if got.Query != nil {
				if err := got.Query.Validate(); err != nil {
					t.Fatalf("validate the query: %v", err)
				}
			}
		}
	})
}

// Another storage, or counters of another registry, are not taken for those of before,
// though their numbers are the same.
func TestVolumesOfAnotherWorld(t *testing.T) {
	prof, c := volumeProfile(t), New()
	p := build.Pod("p").Obj()
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	first := stored{EmptyCluster(still{}), newWaitingStore()}
	if got, err := c.Class(p, prof, first); err != nil || got.Rejected == nil {
		t.Fatalf("got %v, %v, want a rejection", got, err)
	}
	second := stored{EmptyCluster(still{}), newWaitingStore()}
	name := "wait"
	second.store.claims["default/c"] = &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &name}}
	if got, err := c.Class(p, prof, second); err != nil || got.Rejected != nil {
		t.Fatalf("got %v, %v, want a query", got.Rejected, err)
	}
}

// Of many volumes with one affinity as many are listed as there are claims: no claim ever
// comes to the others.
func TestAlikeVolumesAreListedOnce(t *testing.T) {
	prof, w := volumeProfile(t), stored{EmptyCluster(still{}), newWaitingStore()}
	name := "wait"
	p := build.Pod("p").Obj()
	for i := range 2 {
		claim := fmt.Sprint("c", i)
		w.store.claims["default/"+claim] = &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim}, Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &name}}
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	for i := range 100 {
		term := build.Labels(build.Match("zone", v1.NodeSelectorOpIn, fmt.Sprint("z", i%3)))
		w.store.volumes[fmt.Sprint("pv", i)] = &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pv", i)},
			Spec:       v1.PersistentVolumeSpec{StorageClassName: name, NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}},
			Status:     v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		}
	}
	class, err := New().Class(p, prof, w)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, v := range class.Query.VolumeBinding.Volumes {
		counts[v.Value]++
	}
	for _, c := range class.Query.VolumeBinding.Claims {
		if len(c.Volumes) != 6 || !slices.IsSorted(c.Volumes) {
			t.Errorf("got the volumes %v for a claim, want 6 in order", c.Volumes)
		}
	}
	if len(counts) != 3 || counts["z0"] != 2 || !slices.Contains(class.Query.Filters, pb.Plugin_PLUGIN_VOLUME_BINDING) {
		t.Errorf("got %v, want two volumes of each of three zones", counts)
	}
}
