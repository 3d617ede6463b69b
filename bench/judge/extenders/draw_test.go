package extenders

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// draws draws what the clients are made of, asked and answered.
type draws struct{ *rand.Rand }

func (d draws) coin() bool { return d.IntN(2) == 0 }

func (d draws) one(of ...string) string { return of[d.IntN(len(of))] }

var resources = []string{"cpu", "memory", "example.com/foo", "example.com/bar"}

func (d draws) config(url string) configv1.Extender {
	c := configv1.Extender{
		URLPrefix:  url + d.one("", "/", "//", "/a", "/a/", "/a%20b/"),
		FilterVerb: d.one("", "filter", "f/x"), PrioritizeVerb: d.one("", "prioritize", "p?x=1"),
		PreemptVerb: d.one("", "preempt"), BindVerb: d.one("", "bind"),
		Weight: int64(d.IntN(4)), EnableHTTPS: d.coin(), NodeCacheCapable: d.coin(), Ignorable: d.coin(),
		HTTPTimeout: metav1.Duration{Duration: time.Minute},
	}
	for range d.IntN(3) {
		c.ManagedResources = append(c.ManagedResources, configv1.ExtenderManagedResource{Name: resources[d.IntN(len(resources))], IgnoredByScheduler: d.coin()})
	}
	return c
}

func (d draws) amounts() v1.ResourceList {
	out := v1.ResourceList{}
	for range d.IntN(3) {
		out[v1.ResourceName(resources[d.IntN(len(resources))])] = resource.MustParse(d.one("1", "0", "250m", "1Gi"))
	}
	return out
}

func (d draws) pod(name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.one("default", "a"), Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"app": d.one("x", "<y>&")}, Annotations: map[string]string{"k": "line\nline\u2028"},
	}}
	for range 1 + d.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: d.amounts(), Limits: d.amounts()}})
	}
	if d.coin() {
		p.Spec.InitContainers = []v1.Container{{Name: "i", Resources: v1.ResourceRequirements{Requests: d.amounts()}}}
	}
	return p
}

// nodes are nodes with pods on them.
func (d draws) nodes() []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for i := range d.IntN(6) {
		name := fmt.Sprintf("n%d", i)
		var pods []*v1.Pod
		for k := range d.IntN(4) {
			pods = append(pods, d.pod(fmt.Sprintf("%s-%d", name, k)))
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"seen": d.one("yes", "no")}},
			Spec:       v1.NodeSpec{Unschedulable: d.coin()},
			Status:     v1.NodeStatus{Allocatable: d.amounts(), Images: []v1.ContainerImage{{Names: []string{"i"}, SizeBytes: 5}}},
		})
		out = append(out, info)
	}
	return out
}

func (d draws) victims(infos []fwk.NodeInfo) map[string]*extenderv1.Victims {
	out := map[string]*extenderv1.Victims{}
	for _, n := range infos {
		if d.coin() {
			continue
		}
		v := &extenderv1.Victims{NumPDBViolations: int64(d.IntN(3))}
		for _, p := range n.GetPods() {
			if d.coin() {
				v.Pods = append(v.Pods, p.GetPod())
			}
		}
		out[n.Node().Name] = v
	}
	return out
}

// answer answers a verb: often in its form, sometimes not.
func (d draws) answer(verb string, infos []fwk.NodeInfo, cached bool) http.HandlerFunc {
	switch d.IntN(8) {
	case 0:
		code := []int{201, 204, 301, 400, 404, 409, 500, 503}[d.IntN(8)]
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	case 1:
		return say(d.one("", "null", "[]", "{}", "{", `"x"`, "7", "<html>", `{"NodeNames":1}`, `[{"Host":1}]`, `[{"Score":1.5}]`, `{"Error":["x"]}`, `{"Nodes":{"items":{}}}`,
			`{"NodeNameToMetaVictims":[]}`, `{"FailedNodes":{"a":1}}`, "{} {}", "[] trailing", `{"nodenames":[]}`, `{"FAILEDNODES":{"n0":"x"}}`))
	}
	if verb != "prioritize" && verb != "preempt" && d.IntN(6) == 0 {
		return say(`{"Error":"` + d.one("broken", "no room: n0", "100% <full>") + `"}`)
	}
	var out any
	switch verb {
	case "filter":
		out = d.filtered(infos, cached)
	case "prioritize":
		list := extenderv1.HostPriorityList{}
		for _, n := range infos {
			if d.IntN(4) > 0 {
				list = append(list, extenderv1.HostPriority{Host: n.Node().Name, Score: int64(d.IntN(14) - 2)})
			}
		}
		out = list
	case "preempt":
		out = d.preempted(infos)
	default:
		out = extenderv1.ExtenderBindingResult{}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return say(string(raw))
}

func say(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func (d draws) filtered(infos []fwk.NodeInfo, cached bool) *extenderv1.ExtenderFilterResult {
	r := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	var names []string
	list := &v1.NodeList{}
	for _, at := range d.Perm(len(infos)) {
		n := infos[at].Node()
		switch d.IntN(4) {
		case 0:
			r.FailedNodes[n.Name] = "busy"
		case 1:
			r.FailedAndUnresolvableNodes[n.Name] = "never"
			if d.coin() {
				r.FailedNodes[n.Name] = "busy too"
			}
		default:
			names = append(names, n.Name)
			list.Items = append(list.Items, *n)
		}
	}
	if cached && d.IntN(8) == 0 {
		names = append(names, "stranger")
	}
	if d.IntN(4) > 0 {
		r.NodeNames = &names
	}
	if d.coin() {
		r.Nodes = list
	}
	return r
}

// preempted names pods that are there, one node at the most wrongly: of several errors
// upstream tells any.
func (d draws) preempted(infos []fwk.NodeInfo) *extenderv1.ExtenderPreemptionResult {
	r := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	wrong := -1
	if d.IntN(5) == 0 {
		wrong = d.IntN(len(infos) + 1)
	}
	for i, n := range infos {
		if i != wrong && d.IntN(3) == 0 {
			continue
		}
		m := &extenderv1.MetaVictims{NumPDBViolations: int64(d.IntN(3))}
		for _, p := range n.GetPods() {
			if d.coin() {
				m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: string(p.GetPod().UID)})
			}
		}
		if i == wrong {
			m.Pods = append(m.Pods, &extenderv1.MetaPod{UID: "stranger"})
		}
		r.NodeNameToMetaVictims[n.Node().Name] = m
	}
	if wrong == len(infos) {
		r.NodeNameToMetaVictims["stranger"] = &extenderv1.MetaVictims{}
	}
	return r
}
