package summary

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/shardsched/shardsched/cmd/internal/plainjson"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxReasons is how many reasons of pending pods are shown.
const maxReasons = 10

// JSON writes s as one indented JSON object; plainjson has its rules.
func JSON(w io.Writer, s *pb.Summary) error {
	text, err := plainjson.Marshal(s)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// Render writes s as text for people.
func Render(w io.Writer, s *pb.Summary, style Style) error {
	p := &page{style: style}
	p.totals(s)
	p.podGroups(s.GetPodGroups())
	p.pending(s)
	p.plugins(s.GetPlugins())
	p.workers(s)
	p.utilisation(s.GetUtilisation())
	_, err := io.WriteString(w, p.text.String())
	return err
}

// page is text under way.
type page struct {
	style Style
	text  strings.Builder
}

func (p *page) linef(format string, a ...any) {
	p.text.WriteString(strings.TrimRight(fmt.Sprintf(format, a...), " ") + "\n")
}

// heading opens a part, after an empty line.
func (p *page) heading(format string, a ...any) {
	p.text.WriteString("\n")
	p.linef("%s", p.paint(bold, fmt.Sprintf(format, a...)))
}

func (p *page) totals(s *pb.Summary) {
	p.linef("%s", p.paint(bold, "Summary"))
	pods := p.paint(green, count(s.GetPodsBound())+" bound") + ", " + p.paintIf(s.GetPodsPending() > 0, yellow,
		count(s.GetPodsPending())+" pending")
	if n := s.GetPodsPresent(); n > 0 {
		pods += fmt.Sprintf(", %s there before", count(n))
	}
	if n := s.GetPodsPreempted(); n > 0 {
		pods += ", " + p.paint(yellow, count(n)+" preempted")
	}
	if n := s.GetBindFailures(); n > 0 {
		pods += ", " + p.paint(red, plural(n, "bind")+" failed and taken back")
	}
	p.linef("  pods           %s", pods)
	p.linef("  cluster        %s in %s; %s of pods that no rule can tell apart", plural(s.GetNodes(), "node"),
		plural(uint64(s.GetShards()), "shard"), plural(s.GetClasses(), "class"))
	p.devices(s)
	p.linef("  decided/s      %s   (%s in %s)", pad(rate(s.GetDecidedPerSecond()), 9), plural(s.GetDecisions(), "decision"),
		p.duration(s.GetDeciding()))
	p.linef("  bound/s        %s   (%s in %s)", pad(rate(s.GetBoundPerSecond()), 9), plural(s.GetPodsBound(), "pod"),
		p.duration(s.GetBinding()))
	if q := s.GetSubmitToBound(); q.GetCount() > 0 {
		p.linef("  %s  p50 %s   p99 %s   (from a pod's arrival; waiting for room counts)", pad("submit"+p.arrow()+"bound", 13),
			p.duration(q.GetP50()), p.duration(q.GetP99()))
	}
}

// devices tells how many devices there are and are in use, and of claims how many wait for devices.
func (p *page) devices(s *pb.Summary) {
	for _, d := range s.GetDevices() {
		p.linef("  devices        %s of %s in use (%s)", count(d.GetInUse()), count(d.GetDevices()), d.GetDriver())
	}
	if s.GetClaimsAllocated()+s.GetClaimsWaiting() > 0 {
		p.linef("  claims         %s, %s", p.paint(green, count(s.GetClaimsAllocated())+" with devices"),
			p.paintIf(s.GetClaimsWaiting() > 0, yellow, count(s.GetClaimsWaiting())+" waiting"))
	}
}

func (p *page) pending(s *pb.Summary) {
	reasons := s.GetPendingReasons()
	if len(reasons) == 0 {
		return
	}
	p.heading("Pending pods: what refuses their nodes")
	for i, r := range reasons {
		if i == maxReasons {
			p.linef("  %9s  other reasons: %d", "", len(reasons)-maxReasons)
			break
		}
		example := fmt.Sprintf(" (such as %s)", r.GetExample())
		reason := r.GetReason()
		if p.style.Width > 0 {
			room := p.style.Width - 13 - utf8.RuneCountInString(example)
			reason = clip(reason, max(room, 40))
		}
		p.linef("  %s  %s%s", p.paint(yellow, left(count(r.GetPods()), 9)), reason, example)
	}
}

// plugins groups by extension point, in the order in which points first come.
func (p *page) plugins(all []*pb.PluginLatency) {
	if len(all) == 0 {
		return
	}
	wide := len("Plugins, by extension point")
	var points []string
	byPoint := map[string][]*pb.PluginLatency{}
	for _, l := range all {
		if byPoint[l.GetExtensionPoint()] == nil {
			points = append(points, l.GetExtensionPoint())
		}
		byPoint[l.GetExtensionPoint()] = append(byPoint[l.GetExtensionPoint()], l)
		wide = max(wide, 4+utf8.RuneCountInString(l.GetPlugin()))
	}
	p.heading("%s %12s %10s %10s %10s", pad("Plugins, by extension point", wide), "calls", "total", "p50", "p99")
	for _, point := range points {
		p.linef("  %s", point)
		for _, l := range byPoint[point] {
			q := l.GetLatency()
			p.linef("    %s %12s %s %s %s", pad(l.GetPlugin(), wide-4), count(q.GetCount()),
				left(p.duration(q.GetTotal()), 10), left(p.duration(q.GetP50()), 10), left(p.duration(q.GetP99()), 10))
		}
	}
}

func (p *page) workers(s *pb.Summary) {
	all := s.GetWorkers()
	if len(all) == 0 && s.GetLocalEvaluations() == 0 {
		return
	}
	var rows uint64
	wide := len("Workers")
	for _, w := range all {
		rows += w.GetRows()
		wide = max(wide, 2+utf8.RuneCountInString(w.GetId()))
	}
	if len(all) > 0 {
		p.heading("%s %7s %9s %9s %9s  share of the rows looked at", pad("Workers", wide), "shards", "requests", "failures", "busy")
	} else {
		p.heading("Workers")
	}
	for _, w := range all {
		share := ratio(w.GetRows(), rows)
		p.linef("  %s %7d %9s %9s %s  %s %s", pad(w.GetId(), wide-2), w.GetShards(), count(w.GetRequests()), count(w.GetFailures()),
			left(p.duration(w.GetBusy()), 9), p.paint(cyan, p.bar(share, 20)), percent(share))
	}
	rest := fmt.Sprintf("%s to workers", plural(s.GetRounds(), "round"))
	if n := s.GetRequeries(); n > 0 {
		rest += fmt.Sprintf(", %s asked again", plural(n, "class"))
	}
	if n := s.GetLocalEvaluations(); n > 0 {
		rest += fmt.Sprintf(", %s by the coordinator itself", plural(n, "shard evaluation"))
	}
	p.linef("  %s", rest)
	for _, t := range s.GetTunings() {
		p.tuning(t)
	}
}

// maxOtherWays is how many ways are told of that are not in use.
const maxOtherWays = 3

// tuning tells how batches are asked about, and what that costs beside other ways.
func (p *page) tuning(t *pb.Tuning) {
	ways := t.GetWays()
	if len(ways) == 0 || !ways[0].GetInUse() {
		return
	}
	line := fmt.Sprintf("%s: %s, %s a class", t.GetBatches(), wayText(ways[0]), p.duration(ways[0].GetCost()))
	others := ways[1:min(len(ways), 1+maxOtherWays)]
	for i, w := range others {
		line += []string{" (", ", "}[min(i, 1)] + wayText(w) + " " + p.duration(w.GetCost())
	}
	if len(others) > 0 {
		line += ")"
	}
	p.linef("  %s", line)
}

// wayText is a way in words.
func wayText(w *pb.Way) string {
	by := "workers"
	if w.GetOwnTables() {
		by = "own tables"
	} else if w.GetAhead() > 0 {
		by += fmt.Sprintf(" %d ahead", w.GetAhead())
	}
	return fmt.Sprintf("%s, %d classes a batch", by, w.GetClasses())
}

func (p *page) utilisation(all []*pb.Utilisation) {
	if len(all) == 0 {
		return
	}
	wide := len("Requested")
	for _, u := range all {
		wide = max(wide, 2+utf8.RuneCountInString(u.GetResource()))
	}
	p.heading("%s          nodes at 0%s100 %%", pad("Requested", wide), p.dash())
	for _, u := range all {
		share := ratio(uint64(max(u.GetRequested(), 0)), uint64(max(u.GetAllocatable(), 0)))
		p.linef("  %s %s   [%s]   %s", pad(u.GetResource(), wide-2), percent(share),
			p.paint(cyan, p.histogram(u.GetNodesByDecile())), amounts(u))
	}
	p.linef("  Left to right: nodes that are 0%[1]s10 %% full, 10%[1]s20 %%, up to 90%[1]s100 %%; the %[2]s, the more nodes.", p.dash(),
		p.choose("higher", "darker"))
}
