package scripted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// Prefix is that of all annotations.
const Prefix = "script/"

// Factory makes a plugin for one profile.
type Factory = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Plugin is the scripted plugin of one profile, under one name.
type Plugin struct {
	name   string
	handle fwk.Handle

	mu   sync.Mutex
	once map[string]bool        // what was answered once; guarded by mu
	pods map[types.UID]*v1.Pod  // as the informer has them; guarded by mu
	gone map[types.UID]struct{} // guarded by mu
	more chan struct{}          // closed at the next change of pods; guarded by mu
}

var (
	_ fwk.PreEnqueuePlugin    = (*Plugin)(nil)
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.PreScorePlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ScoreExtensions     = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.PermitPlugin        = (*Plugin)(nil)
	_ fwk.PreBindPlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.PostBindPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
)

// New makes plugins of a name.
func New(name string) Factory {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p := &Plugin{
			name: name, handle: h, once: map[string]bool{}, pods: map[types.UID]*v1.Pod{},
			gone: map[types.UID]struct{}{}, more: make(chan struct{}),
		}
		if h.SharedInformerFactory() == nil {
			return p, nil
		}
		_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { p.seen(o.(*v1.Pod)) },
			UpdateFunc: func(_, o any) { p.seen(o.(*v1.Pod)) },
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				p.left(o.(*v1.Pod))
			},
		})
		return p, err
	}
}

// Name is the plugin's name.
func (p *Plugin) Name() string { return p.name }

func (p *Plugin) seen(pod *v1.Pod) {
	p.change(func() { p.pods[pod.UID] = pod })
	plugin, answer, _ := strings.Cut(pod.Annotations[Prefix+"permit"], " ")
	if plugin != p.name {
		return
	}
	w := p.handle.GetWaitingPod(pod.UID)
	if w == nil {
		return
	}
	if text, no := strings.CutPrefix(answer, "reject "); no {
		w.Reject(p.name, text)
	} else {
		w.Allow(p.name)
	}
}

func (p *Plugin) left(pod *v1.Pod) {
	p.change(func() {
		delete(p.pods, pod.UID)
		p.gone[pod.UID] = struct{}{}
	})
}

func (p *Plugin) change(apply func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	apply()
	close(p.more)
	p.more = make(chan struct{})
}

// hold stays until the pod's annotation says that the point may go on, the pod is gone, or ctx ends.
func (p *Plugin) hold(ctx context.Context, pod *v1.Pod, point string) *fwk.Status {
	for {
		p.mu.Lock()
		now, more := p.pods[pod.UID], p.more
		_, gone := p.gone[pod.UID]
		p.mu.Unlock()
		if gone || now != nil && slices.Contains(strings.Fields(now.Annotations[Prefix+"go"]), point) {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fwk.AsStatus(context.Cause(ctx))
		}
	}
}

// said is what a pod's annotations say of a call; empty: nothing.
func (p *Plugin) said(pod *v1.Pod, point, node string) string {
	key := Prefix + p.name + "." + point
	text := pod.Annotations[key]
	if of, ok := pod.Annotations[key+"."+node]; ok && node != "" {
		text = of
	}
	rest, once := strings.CutPrefix(text, "once ")
	if !once {
		return text
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	call := string(pod.UID) + " " + point + " " + node
	if p.once[call] {
		return ""
	}
	p.once[call] = true
	return rest
}

// note prints a call.
func (p *Plugin) note(pod *v1.Pod, point, node, detail, answer string) {
	if detail != "" {
		detail = " " + detail
	}
	line := fmt.Sprintf("script %s/%s %s %s %s%s: %s\n", pod.Namespace, pod.Name, point, p.name, cmp.Or(node, "-"), detail,
		cmp.Or(answer, "Success"))
	_, _ = os.Stdout.WriteString(line)
}

// call notes a call, and gives the status that is said.
func (p *Plugin) call(ctx context.Context, pod *v1.Pod, point, node, detail string) *fwk.Status {
	text := p.said(pod, point, node)
	p.note(pod, point, node, detail, text)
	if text == "Hold" {
		return p.hold(ctx, pod, point)
	}
	return status(text)
}

// status reads a code and its text. What is no code is success.
func status(text string) *fwk.Status {
	word, reason, _ := strings.Cut(text, " ")
	var reasons []string
	if reason != "" {
		reasons = strings.Split(reason, "|")
	}
	for _, code := range []fwk.Code{fwk.Error, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Wait, fwk.Skip, fwk.Pending} {
		switch {
		case code.String() != word:
		case code == fwk.Error:
			return fwk.AsStatus(errors.New(reason))
		default:
			return fwk.NewStatus(code, reasons...)
		}
	}
	return nil
}

// PreEnqueue is part of fwk.PreEnqueuePlugin.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	return p.call(ctx, pod, "PreEnqueue", "", "")
}

// adds counts the pods that were added to what PreFilter has seen, less those removed.
type adds struct{ n int }

// Clone is part of fwk.StateData.
func (a *adds) Clone() fwk.StateData { return &adds{a.n} }

func (p *Plugin) adds(state fwk.CycleState) *adds {
	if data, err := state.Read(fwk.StateKey(p.name)); err == nil {
		return data.(*adds)
	}
	return &adds{-1000}
}

// PreFilter is part of fwk.PreFilterPlugin.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write(fwk.StateKey(p.name), &adds{})
	only, narrowed := pod.Annotations[Prefix+p.name+".PreFilterResult"]
	detail := strconv.Itoa(len(nodes)) + " nodes"
	s := p.call(ctx, pod, "PreFilter", "", detail)
	if !narrowed {
		return nil, s
	}
	r := &fwk.PreFilterResult{NodeNames: sets.New(strings.Fields(only)...)}
	return r, s
}

// PreFilterExtensions is part of fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod is part of fwk.PreFilterExtensions.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	p.adds(state).n++
	return p.call(ctx, pod, "AddPod", node.Node().Name, other.GetPod().Name)
}

// RemovePod is part of fwk.PreFilterExtensions.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	p.adds(state).n--
	return p.call(ctx, pod, "RemovePod", node.Node().Name, other.GetPod().Name)
}

// Filter is part of fwk.FilterPlugin.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return p.call(ctx, pod, "Filter", node.Node().Name, "adds "+strconv.Itoa(p.adds(state).n))
}

// PostFilter is part of fwk.PostFilterPlugin.
func (p *Plugin) PostFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod,
	statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	var saw []string
	if lister := p.handle.SnapshotSharedLister(); lister != nil {
		nodes, err := lister.NodeInfos().List()
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		for _, n := range nodes {
			s := statuses.Get(n.Node().Name)
			saw = append(saw, fmt.Sprintf("%s %s by %q %q", n.Node().Name, s.Code(), s.Plugin(), s.Message()))
		}
		slices.Sort(saw)
	}
	s := p.call(ctx, pod, "PostFilter", "", "["+strings.Join(saw, "; ")+"]")
	if node, ok := strings.CutPrefix(p.said(pod, "PostFilter", ""), "Nominate "); ok {
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}, nil
	}
	if s.IsSuccess() {
		s = fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, s
}

// PreScore is part of fwk.PreScorePlugin.
func (p *Plugin) PreScore(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	return p.call(ctx, pod, "PreScore", "", strconv.Itoa(len(nodes))+" nodes")
}

// Score is part of fwk.ScorePlugin.
func (p *Plugin) Score(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	name := node.Node().Name
	s := p.call(ctx, pod, "Score", name, "")
	if score, err := strconv.ParseInt(pod.Annotations[Prefix+p.name+".Score."+name], 10, 64); err == nil {
		return score, nil
	}
	if name == "n1" {
		return fwk.MaxScore, s
	}
	return 0, s
}

// ScoreExtensions is part of fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore is part of fwk.ScoreExtensions.
func (p *Plugin) NormalizeScore(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var all []string
	for _, s := range scores {
		all = append(all, fmt.Sprintf("%s=%d", s.Name, s.Score))
	}
	slices.Sort(all)
	return p.call(ctx, pod, "NormalizeScore", "", strings.Join(all, " "))
}

// Reserve is part of fwk.ReservePlugin.
func (p *Plugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call(ctx, pod, "Reserve", node, "")
}

// Unreserve is part of fwk.ReservePlugin.
func (p *Plugin) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.call(ctx, pod, "Unreserve", node, "")
}

// Permit is part of fwk.PermitPlugin.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	text := p.said(pod, "Permit", node)
	p.note(pod, "Permit", node, "", text)
	if of, ok := strings.CutPrefix(text, "Wait "); ok {
		d, err := time.ParseDuration(of)
		if err != nil {
			return fwk.AsStatus(err), 0
		}
		return fwk.NewStatus(fwk.Wait), d
	}
	return status(text), 0
}

// PreBindPreFlight is part of fwk.PreBindPlugin.
func (p *Plugin) PreBindPreFlight(ctx context.Context, _ fwk.CycleState, pod *v1.Pod,
	node string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	s := p.call(ctx, pod, "PreBindPreFlight", node, "")
	return &fwk.PreBindPreFlightResult{AllowParallel: pod.Annotations[Prefix+p.name+".PreBind"] == "Parallel"}, s
}

// PreBind is part of fwk.PreBindPlugin.
func (p *Plugin) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call(ctx, pod, "PreBind", node, "")
}

// Bind is part of fwk.BindPlugin.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	text := p.said(pod, "Bind", node)
	p.note(pod, "Bind", node, "", cmp.Or(text, "Skip"))
	switch text {
	case "Bind":
		return fwk.AsStatus(p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{}))
	case "Hold":
		if s := p.hold(ctx, pod, "Bind"); !s.IsSuccess() {
			return s
		}
	}
	if s := status(text); !s.IsSuccess() {
		return s
	}
	return fwk.NewStatus(fwk.Skip)
}

// PostBind is part of fwk.PostBindPlugin.
func (p *Plugin) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.call(ctx, pod, "PostBind", node, "")
}
