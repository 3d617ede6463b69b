package storage_test

import (
	"slices"
	"sort"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/storage"
)

func claim(size string, change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	if change != nil {
		change(c)
	}
	return c
}

func volume(size string, change func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: map[string]string{"tier": "fast"}}}
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	if change != nil {
		change(pv)
	}
	return pv
}

func TestAMatcherTellsKindAndSelectionApart(t *testing.T) {
	block, gold := v1.PersistentVolumeBlock, "gold"
	asks := func(f func(*v1.PersistentVolumeClaimSpec)) *v1.PersistentVolumeClaim {
		return claim("2Gi", func(c *v1.PersistentVolumeClaim) { f(&c.Spec) })
	}
	for _, test := range []struct {
		name          string
		claim         *v1.PersistentVolumeClaim
		volume        *v1.PersistentVolume
		fits, selects bool
	}{
		{"of the very size", claim("2Gi", nil), volume("2048Mi", nil), true, true},
		{"too small", claim("2Gi", nil), volume("2047Mi", nil), false, true},
		{"a file system where blocks are asked for", asks(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeMode = &block }), volume("2Gi", nil), false, true},
		{"blocks where nothing is said", claim("2Gi", nil), volume("2Gi", func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block }), false, true},
		{"of other attributes", asks(func(s *v1.PersistentVolumeClaimSpec) { s.VolumeAttributesClassName = &gold }), volume("2Gi", nil), false, true},
		{"without an access mode", asks(func(s *v1.PersistentVolumeClaimSpec) {
			s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}
		}), volume("2Gi", nil), true, false},
		{"with other labels", asks(func(s *v1.PersistentVolumeClaimSpec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "slow"}}
		}), volume("2Gi", nil), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := storage.NewMatcher(test.claim)
			if err != nil {
				t.Fatal(err)
			}
			if fits, selects := m.Fits(test.volume), m.Selects(test.volume); fits != test.fits || selects != test.selects {
				t.Errorf("fits %v and selects %v, want %v and %v", fits, selects, test.fits, test.selects)
			}
		})
	}
}

func TestAMatcherNamesTheClaimWhoseSelectorIsNone(t *testing.T) {
	_, err := storage.NewMatcher(claim("1Gi", func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	}))
	const want = "error creating internal label selector for claim: ns/c: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want an error that begins with %q", err, want)
	}
}

func TestAVolumeNamesAClaimByItsUIDOrByNameAlone(t *testing.T) {
	c := claim("1Gi", nil)
	for uid, want := range map[types.UID]bool{"": true, "u": true, "another": false} {
		pv := volume("1Gi", func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "c", UID: uid}
		})
		if got := storage.NamesClaim(pv, c); got != want {
			t.Errorf("claimRef with uid %q: names the claim %v, want %v", uid, got, want)
		}
	}
	if storage.NamesClaim(volume("1Gi", nil), c) {
		t.Error("a volume without a claimRef names the claim")
	}
}

func TestZonesOfALabel(t *testing.T) {
	for label, want := range map[string][]string{
		"a":           {"a"},
		"b__a":        {"a", "b"},
		"a__ a __b":   {"a", "b"},
		"a____b":      nil,
		"":            nil,
		"a_b":         {"a_b"},
		"us-1a__us-1": {"us-1", "us-1a"},
	} {
		if got := storage.Zones(label); !slices.Equal(got, want) {
			t.Errorf("zones of %q: got %q, want %q", label, got, want)
		}
	}
}

func TestABrokenBindingModeIsUpstreamsError(t *testing.T) {
	_, err := storage.BindsLate(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}})
	const want = `VolumeBindingMode not set for StorageClass "slow"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// sortedBySize is the sort that has to be matched: sort.Sort over the same claims.
type sortedBySize []*v1.PersistentVolumeClaim

func (s sortedBySize) Len() int      { return len(s) }
func (s sortedBySize) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s sortedBySize) Less(i, j int) bool {
	a, b := s[i].Spec.Resources.Requests[v1.ResourceStorage], s[j].Spec.Resources.Requests[v1.ResourceStorage]
	return a.Cmp(b) < 0
}

func TestClaimsOfOneSizeStandAsUpstreamsSortLeavesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]string{"1Gi", "2Gi", "3Gi"}), 0, 40).Draw(t, "sizes")
		var list []*v1.PersistentVolumeClaim
		for _, size := range sizes {
			list = append(list, claim(size, nil))
		}
		want := slices.Clone(list)
		sort.Sort(sortedBySize(want))
		storage.SortBySize(list, func(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim { return c })
		if !slices.Equal(list, want) {
			t.Errorf("claims of sizes %v: equal ones are not where sort.Sort leaves them", sizes)
		}
	})
}
