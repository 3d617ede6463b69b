package conformance

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// Scenario is a cluster and what happens to it: the first round's events make it, and
// with each further round it changes, after all of the pods before were decided.
type Scenario struct {
	// Config is the configuration file; nil: there is none.
	Config *Configuration `json:"config,omitempty"`
	// PodGroups are the feature gates of pod groups; nil: they are off.
	PodGroups *PodGroups `json:"podGroups,omitempty"`
	// Split is how our scheduler cuts the work up, where the scenario is written down.
	Split  Split   `json:"split"`
	Rounds []Round `json:"rounds"`
}

// Split is how our scheduler cuts work up. It has no influence on decisions.
type Split struct {
	Shards int `json:"shards"`
	Batch  int `json:"batch"`
}

// Configuration is what of a KubeSchedulerConfiguration file counts for decisions.
type Configuration struct {
	APIVersion string                          `json:"apiVersion"`
	Kind       string                          `json:"kind"`
	Profiles   []configv1.KubeSchedulerProfile `json:"profiles"`
}

func newConfiguration() *Configuration {
	return &Configuration{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"}
}

// file is the configuration as a file holds it; nil where there is none.
func (c *Configuration) file() ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return text, nil
}

// upstreamConfig is a configuration file as upstream has it.
func upstreamConfig(file []byte) (*oracle.Config, error) {
	if file == nil {
		return oracle.DefaultConfig()
	}
	return oracle.ParseConfig(file)
}

// Round is a list of events in order.
type Round []Event

// Event is one change.
type Event struct {
	Type EventType
	// Object is what is set, or removed: then its name and, of a pod, its UID count.
	Object oracle.Object
	// Fate decides what becomes of the claims at a Settled.
	Fate uint64
}

// EventType says what happens.
type EventType string

const (
	// Set adds or replaces an object. A pod with spec.nodeName is on its node, one
	// without is to be scheduled, unless it was: then it stays where it is.
	Set EventType = "Set"
	// Removed takes it away.
	Removed EventType = "Removed"
	// Settled lets the controllers of volumes do their part for the pods placed so far:
	// they bind claims and provision volumes, or fail to.
	Settled EventType = "Settled"
)

// event is how an Event is written down.
type event struct {
	Type   EventType       `json:"type"`
	Fate   uint64          `json:"fate,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
}

// MarshalJSON writes the object with its kind.
func (e Event) MarshalJSON() ([]byte, error) {
	out := event{Type: e.Type, Fate: e.Fate}
	if e.Object != nil {
		obj := e.Object.DeepCopyObject()
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
		if out.Object, err = json.Marshal(obj); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Event) UnmarshalJSON(text []byte) error {
	var in event
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*e = Event{Type: in.Type, Fate: in.Fate}
	if in.Object == nil {
		return nil
	}
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), in.Object)
	if err != nil {
		return fmt.Errorf("object of an event: %w", err)
	}
	var ok bool
	if e.Object, ok = obj.(oracle.Object); !ok {
		return fmt.Errorf("object of an event: %T has no metadata", obj)
	}
	return nil
}
