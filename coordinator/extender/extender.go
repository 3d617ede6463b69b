package extender

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Rejector is the name under which upstream lists extenders among the plugins that refuse a pod
// (upstream's framework.ExtenderName). Any event has such a pod tried again.
const Rejector = "Extender"

// defaultTimeout is how long an extender that names no timeout has for an answer.
const defaultTimeout = 5 * time.Second

const (
	// DefaultInFlight is how many calls of an extender are under way under one verb at once.
	DefaultInFlight = 16
	// wholeInFlight is that many where each call carries all nodes, which may be 100 MB.
	wholeInFlight = 4
)

// Options are what extenders share.
type Options struct {
	// InFlight is how many calls are under way for each extender and verb at the most; 0:
	// DefaultInFlight, or a quarter of it for an extender that is sent whole nodes.
	InFlight int
	// Meter counts an extender's calls; nil: nobody does.
	Meter func(name string) Meter
	// Transport takes the calls; nil: connections, as each extender's TLS configuration has them.
	Transport http.RoundTripper
}

// Meter counts the calls of one extender, from any goroutine.
type Meter interface {
	// Began says that a call is sent, and Ended that it has come to its end; err is what the
	// call failed with, nil where it did not.
	Began(v Verb)
	Ended(v Verb, took time.Duration, err error)
}

// Verb is what an extender is asked for.
type Verb uint8

// The verbs.
const (
	Filter Verb = iota
	Prioritize
	Preempt
	Bind

	// Verbs is their number.
	Verbs
)

func (v Verb) String() string {
	return [Verbs]string{"filter", "prioritize", "preempt", "bind"}[v]
}

// Extender is one extender. Make it with New.
type Extender struct {
	prefix    string
	paths     [Verbs]string // what each verb is called, "": the extender lacks it
	weight    int64
	cached    bool
	ignorable bool
	managed   map[v1.ResourceName]struct{} // empty: all pods are its
	client    *http.Client
	gates     [Verbs]chan struct{}
	meter     Meter // nil: nobody counts
}

// New makes the client of an extender. The error is about its certificates and keys.
func New(c *configv1.Extender, o Options) (*Extender, error) {
	transport, err := transport(c)
	if err != nil {
		return nil, err
	}
	if o.Transport != nil {
		transport = o.Transport
	}
	e := &Extender{
		prefix:    c.URLPrefix,
		paths:     [Verbs]string{Filter: c.FilterVerb, Prioritize: c.PrioritizeVerb, Preempt: c.PreemptVerb, Bind: c.BindVerb},
		weight:    c.Weight,
		cached:    c.NodeCacheCapable,
		ignorable: c.Ignorable,
		managed:   map[v1.ResourceName]struct{}{},
		client:    &http.Client{Transport: transport, Timeout: cmp.Or(max(c.HTTPTimeout.Duration, 0), defaultTimeout)},
	}
	for _, r := range c.ManagedResources {
		e.managed[v1.ResourceName(r.Name)] = struct{}{}
	}
	for v := range e.gates {
		e.gates[v] = make(chan struct{}, e.inFlight(o))
	}
	if o.Meter != nil {
		e.meter = o.Meter(e.Label())
	}
	return e, nil
}

// NewAll makes all clients, in the order in which they are asked: those that may be ignored
// stand at the end.
func NewAll(list []configv1.Extender, o Options) ([]*Extender, error) {
	var first, last []*Extender
	for i := range list {
		e, err := New(&list[i], o)
		if err != nil {
			return nil, fmt.Errorf("couldn't build extenders: extenders[%d].tlsConfig: %w", i, err)
		}
		if e.ignorable {
			last = append(last, e)
		} else {
			first = append(first, e)
		}
	}
	return append(first, last...), nil
}

func (e *Extender) inFlight(o Options) int {
	if e.WantsNodes() {
		return cmp.Or(o.InFlight, wholeInFlight)
	}
	return cmp.Or(o.InFlight, DefaultInFlight)
}

// InFlight is how many calls are under way under one verb at the most.
func (e *Extender) InFlight() int { return cap(e.gates[Filter]) }

// transport makes connections as the extender's TLS configuration has it. With enableHTTPS and
// no authority named in it, any certificate will do.
func transport(c *configv1.Extender) (http.RoundTripper, error) {
	var r rest.Config
	if t := c.TLSConfig; t != nil {
		r.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName,
			CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if c.EnableHTTPS && r.CAFile == "" && len(r.CAData) == 0 {
		r.Insecure = true
	}
	tls, err := rest.TLSConfigFor(&r)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls}), nil
}

// Name is the extender's address, as upstream has it.
func (e *Extender) Name() string { return e.prefix }

// Label is the name without what may be secret in it, for metrics and traces.
func (e *Extender) Label() string { return Label(e.prefix) }

// Label is the address of an extender without what may be secret in it.
func Label(urlPrefix string) string {
	u, err := url.Parse(urlPrefix)
	if err != nil {
		return "(not a URL)"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// public is an address without a password, for texts that pods' owners read.
func public(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}
	return address
}

// IsIgnorable tells whether pods are scheduled without it when it fails.
func (e *Extender) IsIgnorable() bool { return e.ignorable }

// IsFilter tells whether it filters.
func (e *Extender) IsFilter() bool { return e.paths[Filter] != "" }

// IsPrioritizer tells whether it scores.
func (e *Extender) IsPrioritizer() bool { return e.paths[Prioritize] != "" }

// IsBinder tells whether it binds.
func (e *Extender) IsBinder() bool { return e.paths[Bind] != "" }

// SupportsPreemption tells whether it has a say in preemption.
func (e *Extender) SupportsPreemption() bool { return e.paths[Preempt] != "" }

// WantsNodes tells whether it is sent whole nodes.
func (e *Extender) WantsNodes() bool { return !e.cached && (e.IsFilter() || e.IsPrioritizer()) }

// WantsVictims tells whether it is sent whole pods that are on nodes.
func (e *Extender) WantsVictims() bool { return !e.cached && e.SupportsPreemption() }

// WantsPods tells whether it is sent whole pods that are to be scheduled.
func (e *Extender) WantsPods() bool {
	return e.IsFilter() || e.IsPrioritizer() || e.SupportsPreemption()
}

// IsInterested tells whether the extender is asked about a pod: a container or an init
// container requests or is limited in one of its resources, or it has none.
func (e *Extender) IsInterested(pod *v1.Pod) bool {
	return len(e.managed) == 0 || e.manages(pod.Spec.Containers) || e.manages(pod.Spec.InitContainers)
}

func (e *Extender) manages(list []v1.Container) bool {
	for i := range list {
		for _, amounts := range []v1.ResourceList{list[i].Resources.Requests, list[i].Resources.Limits} {
			for name := range amounts {
				if _, ok := e.managed[name]; ok {
					return true
				}
			}
		}
	}
	return false
}

// url is where a verb is asked.
func (e *Extender) url(v Verb) string {
	return strings.TrimRight(e.prefix, "/") + "/" + e.paths[v]
}
