package observe

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxMapsKept is how many maps' names are kept, each with 16 bytes a node, and maxMapNames how many are told at once.
const maxMapsKept, maxMapNames = 4, 1000

// MapNames keeps the names of the nodes of the last maps, for those who look at a map: a map has no names. It may be used by many at
// once.
type MapNames struct {
	mu   sync.Mutex
	kept []mapNames // guarded by mu; the last used last
}

type mapNames struct {
	fingerprint uint64
	names       []string // not changed any more
}

// Keep has the names of a map be found.
func (k *MapNames) Keep(fingerprint uint64, names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = slices.DeleteFunc(k.kept, func(m mapNames) bool { return m.fingerprint == fingerprint })
	if len(k.kept) == maxMapsKept {
		k.kept = slices.Delete(k.kept, 0, 1)
	}
	k.kept = append(k.kept, mapNames{fingerprint, names})
}

// List tells the names of a part of a map.
func (k *MapNames) List(req *pb.ListMapNodesRequest) (*pb.ListMapNodesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.kept {
		if m.fingerprint != req.GetFingerprint() {
			continue
		}
		first := min(int(req.GetFirst()), len(m.names))
		limit := int(req.GetLimit())
		if limit == 0 {
			limit = maxMapNames
		}
		return &pb.ListMapNodesResponse{Names: m.names[first:min(first+limit, len(m.names))]}, nil
	}
	return nil, status.Error(codes.Aborted, "the nodes have changed since that map: ask for a new one")
}
