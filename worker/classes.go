package worker

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/internal/lru"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/devices/selector"
	"github.com/shardsched/shardsched/scorer/expression"
	"github.com/shardsched/shardsched/scorer/scan"
)

// classKey names a class of a leader: each leader numbers its classes anew.
type classKey struct {
	term, class uint64
}

// classBytes bounds what the held classes take. Few are large: those of pods that may get
// one of thousands of volumes.
const classBytes = 256 << 20

// classCache holds compiled classes by last use. It is safe for concurrent use.
type classCache struct {
	metrics *metrics
	// expressions are those that were compiled of late.
	expressions expression.Templates
	// selectors compiles those of devices.
	selectors *selector.Compiler

	mu   sync.Mutex
	held *lru.Cache[classKey, *scorer.Class]
}

func newClassCache(size int, m *metrics) *classCache {
	return &classCache{metrics: m, selectors: selector.NewCompiler(), held: lru.New[classKey, *scorer.Class](size, classBytes, nil)}
}

// resolve finds or compiles the classes that the request asks for, or for which it wants a
// dry run of preemption, and names those of which it has no definition. Definitions in the
// request serve it even where the cache is too small to keep them.
func (c *classCache) resolve(req *pb.EvaluateRequest) (asks []scan.Ask, dry []scan.PreemptAsk, missing []uint64, err error) {
	given, err := c.compile(req)
	if err != nil {
		return nil, nil, nil, err
	}
	asks = make([]scan.Ask, 0, len(req.GetClasses()))
	c.mu.Lock()
	defer c.mu.Unlock()
	find := func(id uint64, pins []*pb.PinnedSums) *scorer.Class {
		class := given[id]
		if class == nil {
			class, _ = c.held.Get(keyOf(req, id))
		}
		if class == nil {
			missing = append(missing, id)
			return nil
		}
		pinned, wrong := class.PinTo(pins)
		if wrong != nil {
			err = invalid(wrong, "class %016x", id)
		}
		return pinned
	}
	for i, r := range req.GetClasses() {
		if class := find(r.GetClassId(), r.GetPins()); class != nil {
			asks = append(asks, scan.Ask{Class: class, Options: options(r, req.GetCandidates()[i])})
		}
	}
	for _, r := range req.GetPreemptions() {
		if class := find(r.GetClassId(), r.GetPins()); class != nil {
			dry = append(dry, scan.PreemptAsk{Class: class, Preemption: scorer.NewPreemption(r)})
		}
	}
	c.keep(req, given)
	return asks, dry, missing, err
}

// options are what a request asks of one class.
func options(r *pb.ClassRequest, candidates uint32) scorer.Options {
	return scorer.Options{
		Candidates: int(candidates),
		Diagnose:   r.GetDiagnose(),
		Normalise:  r.GetNormalise(),
		Extrema:    r.GetExtrema(),
		Steps:      int64(r.GetSearchSteps()),
		Copies:     r.GetCopies(),
		CopyKeys:   r.GetCopyKeys(),
	}
}

func keyOf(req *pb.EvaluateRequest, class uint64) classKey {
	return classKey{req.GetTerm(), class}
}

// compile makes the classes of the definitions, using those that are held. A definition counts, and
// not the id of one that was held before.
func (c *classCache) compile(req *pb.EvaluateRequest) (map[uint64]*scorer.Class, error) {
	if len(req.GetQueries())+len(req.GetVariants()) == 0 {
		return nil, nil
	}
	given := make(map[uint64]*scorer.Class, len(req.GetQueries())+len(req.GetVariants()))
	for _, q := range req.GetQueries() {
		id := q.GetClassId()
		if class := c.peek(keyOf(req, id)); class != nil && proto.Equal(class.Query(), q) {
			given[id] = class
			continue
		}
		class, err := scorer.NewClassWith(q, &c.expressions, c.selectors)
		if err != nil {
			return nil, invalid(err, "class %016x", id)
		}
		given[id] = class
	}
	return given, c.vary(req, given)
}

// vary makes the variants that the request defines, of originals that it gives and of those that are held. A variant without its
// original is left out: it has no definition.
func (c *classCache) vary(req *pb.EvaluateRequest, given map[uint64]*scorer.Class) error {
	for i, v := range req.GetVariants() {
		original := given[v.GetOriginal()]
		if original == nil {
			if original = c.use(keyOf(req, v.GetOriginal())); original == nil {
				continue
			}
		}
		q, err := original.Query().Vary(v)
		if err == nil && original.Claims() {
			err = fmt.Errorf("original: expected a class without claims of devices, got %016x", v.GetOriginal())
		}
		if err != nil {
			return invalid(err, "evaluate request: variants[%d]", i)
		}
		given[v.GetClassId()] = original.Vary(q)
	}
	return nil
}

// use returns a held class, and notes that it is in use.
func (c *classCache) use(key classKey) *scorer.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	class, _ := c.held.Get(key)
	return class
}

// peek returns a held class without using it.
func (c *classCache) peek(key classKey) *scorer.Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	class, _ := c.held.Peek(key)
	return class
}

// keep puts the given classes in the cache. The caller holds c.mu.
func (c *classCache) keep(req *pb.EvaluateRequest, given map[uint64]*scorer.Class) {
	evictions := c.metrics.evictions.WithLabelValues("classes")
	for id, class := range given {
		key := keyOf(req, id)
		if held, _ := c.held.Get(key); held == class {
			continue
		}
		evictions.Add(float64(c.held.Add(key, class, class.MemoryBytes())))
	}
	c.metrics.classes.Set(float64(c.held.Len()))
}
