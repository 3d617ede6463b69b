package queue

import (
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// knowing knows of claims, and of nothing else.
type knowing struct{ devices *devices.Cache }

func (k knowing) Claims() Claims                                          { return k.devices }
func (knowing) AddedAffinity(*v1.Pod) *nodeaffinity.NodeSelector          { return nil }
func (knowing) DefaultConstraints(*v1.Pod) []Constraint                   { return nil }
func (knowing) HoldsBack(*v1.Pod, string) bool                            { return true }
func (knowing) Preempting(*v1.Pod) bool                                   { return false }
func (knowing) Allocatable(string) (*pb.Resources, bool)                  { return nil, false }
func (knowing) Room(*v1.Pod, *pb.Resources, string) (room int64, ok bool) { return 0, false }

// deviceCommands are the script's commands that are about dynamic resources.
var deviceCommands = map[string]func(s *script, name string, args []string) string{
	"rclaim": func(s *script, name string, args []string) string {
		return s.claims(s.devices.Set(resourceClaim(s, name, args)))
	},
	"rclaim-gone": func(s *script, name string, _ []string) string {
		return s.claims(s.devices.Delete(s.devices.Claim("default", name)))
	},
	"slice": func(s *script, name string, args []string) string {
		x := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.devices.Set(x)
		return s.changed(name, x)
	},
	"device-class": func(s *script, name string, args []string) string {
		x := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for k, v := range words(args) {
			switch k {
			case "resource":
				x.Spec.ExtendedResourceName = &v
			case "newer":
				x.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
			default:
				panic("unknown word " + k)
			}
		}
		s.devices.Set(x)
		return s.changed(name, x)
	},
}

// claims moves pods as the changes of claims say.
func (s *script) claims(told devices.Changes) string {
	var events []Event
	for _, c := range told.Claims {
		switch {
		case c.Now == nil:
		case c.Old == nil:
			events = append(events, ResourceClaimAdded(c.Now))
		default:
			events = append(events, ResourceClaimUpdated(c.Old, c.Now))
		}
	}
	return s.moved(events)
}

// changed tells the queue of an object.
func (s *script) changed(name string, now objects.Object) string {
	key := string(objects.KindOf(now)) + "/" + name
	old, _ := s.store[key].(objects.Object)
	s.store[key] = now
	return s.moved(Changes(old, now))
}

// resourceClaim reads devices, which it has, reserved=POD, owner=POD, label=KEY, deleting.
func resourceClaim(s *script, name string, args []string) *resourcev1.ResourceClaim {
	version, _ := s.store["version"].(int)
	s.store["version"] = version + 1
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name, c.UID, c.ResourceVersion = "default", name, types.UID(name), strconv.Itoa(version)
	for k, v := range words(args) {
		switch k {
		case "ns":
			c.Namespace = v
		case "devices":
			c.Status.Allocation = &resourcev1.AllocationResult{}
		case "reserved":
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: v})
		case "owner":
			yes := true
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: v, UID: pod(v, nil).UID, Controller: &yes}}
		case "label":
			c.Labels = map[string]string{v: ""}
		case "deleting":
			now := metav1.NewTime(start)
			c.DeletionTimestamp = &now
		default:
			panic("unknown word " + strings.Join(args, " "))
		}
	}
	return c
}
