package count

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Key names something outside a pod that pods use. The counter of a key tells how many
// volumes of a pod, or of a node's pods, do.
type Key struct {
	kind       keyKind
	a, b, c    string
	writesOnly bool // volumes that only read do not count
}

type keyKind byte

const (
	claim keyKind = iota + 1
	claimName
	gcePersistentDisk
	awsElasticBlockStore
	iscsi
	rbd
)

// Claim is the key of a PersistentVolumeClaim.
func Claim(namespace, name string) Key { return Key{kind: claim, a: namespace, b: name} }

// ClaimName is the key of claims of one name, in any namespace.
func ClaimName(name string) Key { return Key{kind: claimName, a: name} }

// Disk lists the keys that stand against a volume of a pod on a node: where the counter
// of one of them is above 0, a pod there uses the same disk and upstream's
// VolumeRestrictions lets no other share it. A volume that is not a disk has none.
func Disk(v *v1.VolumeSource) []Key {
	var out []Key
	eachDisk(v, func(k Key, readOnly bool) {
		// A reader bears other readers.
		k.writesOnly = readOnly
		out = append(out, k)
	})
	return out
}

// Held are the keys whose counters a pod raises above 0.
func Held(p *v1.Pod) map[Key]bool {
	out := map[Key]bool{}
	eachKey(p, func(k Key) { out[k] = true })
	return out
}

// eachDisk calls f for each disk that a volume is: an RBD image is one for each of its
// monitors, for two volumes are the same image where they share one.
func eachDisk(v *v1.VolumeSource, f func(k Key, readOnly bool)) {
	if d := v.GCEPersistentDisk; d != nil {
		f(Key{kind: gcePersistentDisk, a: d.PDName}, d.ReadOnly)
	}
	if d := v.AWSElasticBlockStore; d != nil {
		f(Key{kind: awsElasticBlockStore, a: d.VolumeID}, false) // readers do not share it either
	}
	if d := v.ISCSI; d != nil {
		f(Key{kind: iscsi, a: d.IQN}, d.ReadOnly)
	}
	if d := v.RBD; d != nil {
		for _, monitor := range d.CephMonitors {
			f(Key{kind: rbd, a: monitor, b: d.RBDPool, c: d.RBDImage}, d.ReadOnly)
		}
	}
}

// eachKey calls f for each key that a pod adds to; for one that several of its volumes
// use, several times.
func eachKey(p *v1.Pod, f func(Key)) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i].VolumeSource
		if c := v.PersistentVolumeClaim; c != nil {
			f(Claim(p.Namespace, c.ClaimName))
			f(ClaimName(c.ClaimName))
			continue
		}
		eachDisk(v, func(k Key, readOnly bool) {
			f(k)
			if !readOnly {
				k.writesOnly = true
				f(k)
			}
		})
	}
}

func (k Key) value(p *v1.Pod) int64 {
	n := int64(0)
	eachKey(p, func(other Key) {
		if other == k {
			n++
		}
	})
	return n
}

func (k Key) within() []string {
	if k.kind == claim {
		return []string{k.a}
	}
	return nil
}

// among is a key that pods of some namespaces alone used when its counter was made.
type among struct {
	Key
	namespaces []string
}

func (k among) within() []string { return k.namespaces }

func (k Key) append(into []byte) []byte {
	into = append(into, byte(k.kind), 'a')
	if k.writesOnly {
		into[len(into)-1] = 'w'
	}
	return selector.AppendText(selector.AppendText(selector.AppendText(into, k.a), k.b), k.c)
}

// keysOf is what a pod adds to the counters of keys.
func (r *Registry) keysOf(p *v1.Pod) []*pb.CounterValue {
	if len(r.keyed) == 0 || len(p.Spec.Volumes) == 0 {
		return nil
	}
	var out []*pb.CounterValue
	eachKey(p, func(k Key) {
		if c := r.keyed[k]; c != nil {
			out = append(out, &pb.CounterValue{Counter: c.id, Value: 1})
		}
	})
	return sum(out)
}
