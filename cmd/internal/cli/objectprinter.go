package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// objectPrinter writes Kubernetes objects as kubectl would.
type objectPrinter struct {
	out  io.Writer
	kind string
	*listing
	namespaces bool // show them
	now        func() time.Time
	table      *table
	shown      map[string]bool // what is shown by now, where some are left out: namespace/name
}

// streams tells whether objects are written one by one, and in the order in which they come.
func (p *objectPrinter) streams() bool {
	return (p.isTable() || p.form == "name" || p.form == "custom-columns") && p.order == nil
}

// list writes objects as one answer: a single one, asked for by name, stands by
// itself.
func (p *objectPrinter) list(objs []runtime.Object, single bool) error {
	if p.form != "json" && p.form != "yaml" && p.form != "jsonpath" {
		return p.each(objs...)
	}
	var answer any = struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []runtime.Object `json:"items"`
	}{"v1", "List", append([]runtime.Object{}, objs...)}
	if single && len(objs) == 1 {
		answer = objs[0]
	}
	if p.form == "jsonpath" {
		return p.printTemplate(p.out, answer)
	}
	return printObject(p.out, p.form, answer)
}

// each writes objects one after the other.
func (p *objectPrinter) each(objs ...runtime.Object) error {
	p.note(objs...)
	switch p.form {
	case "json", "yaml":
		for i, obj := range objs {
			if p.form == "yaml" && i > 0 {
				fmt.Fprintln(p.out, "---")
			}
			if err := printObject(p.out, p.form, obj); err != nil {
				return err
			}
		}
		return nil
	case "jsonpath":
		for _, obj := range objs {
			if err := p.printTemplate(p.out, obj); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for _, obj := range objs {
			if _, err := fmt.Fprintf(p.out, "%s/%s\n", objects.Kind(p.kind).Singular(), obj.(metav1.Object).GetName()); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, 0, len(objs))
	for _, obj := range objs {
		row := p.row(obj)
		if p.form == "custom-columns" {
			var err error
			if row, err = p.pathRow(obj); err != nil {
				return err
			}
		}
		rows = append(rows, row)
	}
	return p.print(rows)
}

// note remembers what is shown, where some objects are left out.
func (p *objectPrinter) note(objs ...runtime.Object) {
	if !p.selects() {
		return
	}
	if p.shown == nil {
		p.shown = map[string]bool{}
	}
	for _, obj := range objs {
		p.shown[keyOf(obj)] = true
	}
}

// shows tells whether an object has been shown, and not as deleted since.
func (p *objectPrinter) shows(obj runtime.Object) bool { return p.shown[keyOf(obj)] }

func keyOf(obj runtime.Object) string {
	m := obj.(metav1.Object)
	return m.GetNamespace() + "/" + m.GetName()
}

func (p *objectPrinter) print(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	switch {
	case p.table != nil:
	case p.form == "custom-columns":
		p.table = p.pathTable(p.out)
	default:
		p.table = p.newTable(p.out, p.headers()...)
	}
	return p.table.print(rows...)
}

// event writes a change; what is gone is told as such.
func (p *objectPrinter) event(t pb.WatchEventType, obj runtime.Object) error {
	if t == pb.WatchEventType_WATCH_EVENT_TYPE_DELETED && p.isTable() {
		delete(p.shown, keyOf(obj))
		row := p.row(obj)
		at := slices.Index(p.headers(), "STATUS")
		if at < 0 {
			at = slices.Index(p.headers(), "AGE")
		}
		row[at] = "Deleted"
		return p.print([][]string{row})
	}
	if p.form == "yaml" {
		fmt.Fprintln(p.out, "---")
	}
	return p.each(obj)
}

func (p *objectPrinter) headers() []string {
	wide := p.form == "wide"
	var h []string
	switch p.kind {
	case client.KindNode:
		h = []string{"NAME", "STATUS", "CPU", "MEMORY", "PODS", "AGE"}
		if wide {
			h = append(h, "OTHER RESOURCES", "TAINTS")
		}
	case client.KindPod:
		if p.namespaces {
			h = append(h, "NAMESPACE")
		}
		h = append(h, "NAME", "STATUS", "NODE", "AGE")
		if wide {
			h = append(h, "PRIORITY", "CPU", "MEMORY", "OTHER REQUESTS")
		}
	case client.KindNamespace:
		h = []string{"NAME", "STATUS", "AGE"}
	default:
		if p.namespaces && objects.Kind(p.kind).Namespaced() {
			h = append(h, "NAMESPACE")
		}
		h = append(h, "NAME")
		for _, c := range columnsOf(objects.Kind(p.kind)) {
			h = append(h, c.header)
		}
		h = append(h, "AGE")
	}
	return h
}

func (p *objectPrinter) row(obj runtime.Object) []string {
	switch obj := obj.(type) {
	case *v1.Node:
		return p.node(obj)
	case *v1.Pod:
		return p.pod(obj)
	case *v1.Namespace:
		return []string{obj.Name, cmp.Or(string(obj.Status.Phase), "Active"), p.age(obj)}
	case objects.Object:
		return p.other(obj)
	}
	return nil
}

func (p *objectPrinter) other(obj objects.Object) []string {
	var row []string
	if p.namespaces && objects.Kind(p.kind).Namespaced() {
		row = append(row, obj.GetNamespace())
	}
	row = append(row, obj.GetName())
	for _, c := range columnsOf(objects.KindOf(obj)) {
		row = append(row, cmp.Or(c.value(obj), "<none>"))
	}
	return append(row, p.age(obj))
}

func (p *objectPrinter) node(n *v1.Node) []string {
	row := []string{n.Name, nodeStatus(n), amount(n.Status.Allocatable, v1.ResourceCPU),
		amount(n.Status.Allocatable, v1.ResourceMemory), amount(n.Status.Allocatable, v1.ResourcePods), p.age(n)}
	if p.form == "wide" {
		var taints []string
		for _, t := range n.Spec.Taints {
			taints = append(taints, t.ToString())
		}
		row = append(row, others(n.Status.Allocatable), cmp.Or(strings.Join(taints, ","), "<none>"))
	}
	return row
}

func nodeStatus(n *v1.Node) string {
	status := "Ready"
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func (p *objectPrinter) pod(pod *v1.Pod) []string {
	var row []string
	if p.namespaces {
		row = append(row, pod.Namespace)
	}
	row = append(row, pod.Name, podStatus(pod), cmp.Or(pod.Spec.NodeName, "<none>"), p.age(pod))
	if p.form == "wide" {
		priority := int32(0)
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		row = append(row, fmt.Sprint(priority), amount(requests, v1.ResourceCPU), amount(requests, v1.ResourceMemory), others(requests))
	}
	return row
}

// podStatus is the phase. Where nobody runs pods, one that has its node stays
// Pending for ever: it is shown as Bound.
func podStatus(pod *v1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "Terminating"
	case pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending:
		return string(pod.Status.Phase)
	case pod.Spec.NodeName != "":
		return "Bound"
	case len(pod.Spec.SchedulingGates) > 0:
		return "SchedulingGated"
	case pod.Annotations[objects.PreemptedBy] != "":
		return "Pending (preempted by " + pod.Annotations[objects.PreemptedBy] + ")"
	}
	return string(v1.PodPending)
}

func (p *objectPrinter) age(obj metav1.Object) string {
	created := obj.GetCreationTimestamp()
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(p.now().Sub(created.Time))
}

func amount(list v1.ResourceList, name v1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "0"
	}
	return q.String()
}

// others lists what is neither cpu, memory nor pods.
func others(list v1.ResourceList) string {
	var parts []string
	for name, q := range list {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourcePods && q.Cmp(resource.Quantity{}) != 0 {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
		}
	}
	slices.Sort(parts)
	return cmp.Or(strings.Join(parts, ","), "<none>")
}
