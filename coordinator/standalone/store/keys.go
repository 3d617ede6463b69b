package store

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// keys knows where things are in etcd.
type keys struct {
	objects string // every object's key begins with it
	queue   string
	history string
	gangs   string
}

func keysOf(cluster string) keys {
	root := "/shardsched/" + cluster + "/"
	return keys{objects: root + "objects/", queue: root + "queue/", history: root + "history/", gangs: root + "gangs/"}
}

// kind is the prefix of all objects of a kind, or of those in one namespace.
func (k keys) kind(kind objects.Kind, namespace string) string {
	prefix := k.objects + kind.Plural() + "/"
	if kind.Namespaced() && namespace != "" {
		prefix += namespace + "/"
	}
	return prefix
}

func (k keys) object(r objects.Ref) string { return k.kind(r.Kind, r.Namespace) + r.Name }

func (k keys) entry(uid types.UID) string { return k.queue + string(uid) }

// slot is where a part of the history is. Slots sort by number.
func (k keys) slot(n int) string { return fmt.Sprintf("%s%04d", k.history, n) }

// ref is the inverse of object.
func (k keys) ref(key string) (objects.Ref, error) {
	path, ok := strings.CutPrefix(key, k.objects)
	plural, name, more := strings.Cut(path, "/")
	for _, kind := range objects.Kinds() {
		if !ok || !more || kind.Plural() != plural {
			continue
		}
		if !kind.Namespaced() {
			return objects.Ref{Kind: kind, Name: name}, nil
		}
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			return objects.Ref{Kind: kind, Namespace: namespace, Name: name}, nil
		}
	}
	return objects.Ref{}, fmt.Errorf("key %q is not that of an object", key)
}
