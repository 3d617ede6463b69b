package workload

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// letters are those that the API server ends generated names with: no vowels, so
	// that no word comes out, and no digits that look like letters.
	letters = "bcdfghjklmnpqrstvwxz2456789"
	// endingLength is how many of them.
	endingLength = 5
	// endingCount is 27 to the 5th.
	endingCount = 27 * 27 * 27 * 27 * 27
	// maxGeneratedBase is what the API server keeps of a generateName.
	maxGeneratedBase = 63 - endingLength
	// stride walks through all endings without meeting one twice: it has no factor
	// in common with endingCount, which is a power of 3.
	stride = 8867867
)

// endings are the random-looking ends of the names of one owner's pods.
type endings struct{ start uint64 }

func newEndings(parts ...string) endings {
	return endings{digest(parts...) % endingCount}
}

// at is the ending of pod i; no two i below 14 million share one.
func (e endings) at(i int) string {
	return spell((e.start + uint64(i)*stride) % endingCount)
}

func spell(n uint64) string {
	var b [endingLength]byte
	for i := range b {
		b[i] = letters[n%uint64(len(letters))]
		n /= uint64(len(letters))
	}
	return string(b[:])
}

// digest hashes parts so that no two lists of parts run together.
func digest(parts ...string) uint64 {
	d := xxhash.New()
	for _, p := range parts {
		fmt.Fprintf(d, "%d:%s", len(p), p)
	}
	return d.Sum64()
}

// generateName is the base of a generated name, cut as the API server cuts it.
func generateName(owner string) string {
	base := owner + "-"
	return base[:min(len(base), maxGeneratedBase)]
}

// templateHash stands for a template's content, in the shape of a controller's
// hash.
func templateHash(t *v1.PodTemplateSpec) string {
	raw, err := json.Marshal(t)
	if err != nil {
		// A template that was decoded can be encoded.
		panic(fmt.Sprintf("encode a pod template: %v", err))
	}
	h := fnv.New32a()
	h.Write(raw)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// UID is made from what names an object, for objects that have none: the same on
// every run.
func UID(kind, namespace, name string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("shardsched/"+kind+"/"+namespace+"/"+name)).String())
}

// Generated is the name of pod i that an owner makes, of those whose names end at random.
func Generated(namespace, kind, name string, i int) string {
	return generateName(name) + newEndings(kind, namespace, name).at(i)
}
