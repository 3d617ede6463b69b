package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func pluginsPage() page {
	return page{path: "plugins", title: "Plugins", live: true, show: showPlugins}
}

// pluginsShown is what the page shows.
type pluginsShown struct {
	Verdict                  verdict
	Filters                  filters
	Uses, Latency, Extenders table
}

func showPlugins(v *visit) (any, error) {
	r, err := v.client.ListPlugins(v, &pb.ListPluginsRequest{})
	if err != nil {
		return nil, err
	}
	return pluginsShown{
		Verdict: costliest(r), Filters: v.profileFilter(r), Uses: v.pluginUses(r), Latency: v.pluginLatency(r), Extenders: v.extenders(r),
	}, nil
}

// total is what all plugins took of all profiles.
func total(uses []*pb.PluginUse) (d time.Duration) {
	for _, u := range uses {
		d += u.GetTook().AsDuration()
	}
	return d
}

// costliest says which plugin takes most.
func costliest(r *pb.ListPluginsResponse) verdict {
	uses := r.GetUses()
	if len(uses) == 0 || total(uses) == 0 {
		return verdict{State: "good", Text: "No plugin has looked at a node yet."}
	}
	u := uses[0] // the costliest stands first
	share := float64(u.GetTook().AsDuration()) / float64(total(uses))
	text := u.GetPlugin() + " takes " + percent(share, 1) + " of the time that built-in plugins take, at " + u.GetExtensionPoint() +
		" of profile " + u.GetProfile() + "."
	state := "good"
	if share > 0.5 && len(uses) > 3 {
		state = "warn"
	}
	w := verdict{State: state, Text: text}
	if e := u.GetExpressions(); len(e) > 0 {
		w.Wrong = append(w.Wrong, "Its time is that of all its expressions together: "+strings.Join(e, ", ")+".")
	}
	for _, x := range r.GetExtenders() {
		if x.GetLatency().GetTotal().AsDuration() > total(uses) {
			w.State = "warn"
			w.Wrong = append(w.Wrong, "Extender "+x.GetExtender()+" takes longer for "+x.GetVerb()+" than all built-in plugins together.")
		}
	}
	return w
}

func (v *visit) pluginUses(r *pb.ListPluginsResponse) table {
	t := table{
		Caption: "Built-in plugins by profile, the costliest first", Empty: "No plugin has looked at a node yet.",
		Columns: []column{
			{Name: "Plugin"}, {Name: "At"}, {Name: "Profile"}, {Name: "Time", Number: true},
			{Name: "Share", Number: true, Help: "of the time of all built-in plugins"},
			{Name: "Calls", Number: true, Help: "passes over the rows of one worker for one class"},
			{Name: "Rows in", Number: true, Help: "that it looked at"},
			{Name: "Rows out", Number: true, Help: "that it let through, or scored"},
			{Name: "Let through", Number: true}, {Name: "A row", Number: true, Help: "time for one row"},
		},
		Command: v.command("get", "plugins"), Download: download("ListPlugins"),
	}
	all := total(r.GetUses())
	for _, u := range r.GetUses() {
		if p := v.get("profile"); p != "" && p != u.GetProfile() {
			continue
		}
		name := head(u.GetPlugin())
		if e := u.GetExpressions(); len(e) > 0 {
			name = name.below("expressions: " + strings.Join(e, ", "))
		}
		row := time.Duration(0)
		if u.GetRowsIn() > 0 {
			row = time.Duration(float64(u.GetTook().AsDuration()) / float64(u.GetRowsIn()))
		}
		let := "–"
		if u.GetExtensionPoint() == "Filter" {
			let = percent(float64(u.GetRowsOut()), float64(u.GetRowsIn()))
		}
		t.Rows = append(t.Rows, []cell{
			name, words(u.GetExtensionPoint()), words(u.GetProfile()).to(link("configuration")), number(took(u.GetTook())),
			number(percent(float64(u.GetTook().AsDuration()), float64(all))), number(count(u.GetCalls())), number(count(u.GetRowsIn())),
			number(count(u.GetRowsOut())), number(let), number(brief(row)),
		})
	}
	return t
}

func (v *visit) pluginLatency(r *pb.ListPluginsResponse) table {
	t := table{
		Caption: "A call of each plugin, of all profiles, those that are compiled in too", Empty: "No plugin was called yet.",
		Columns: []column{{Name: "Plugin"}, {Name: "At"}, {Name: "Calls", Number: true}, {Name: "Time", Number: true},
			{Name: "p50", Number: true}, {Name: "p99", Number: true}},
		Command: v.command("summary"), Download: download("ListPlugins"),
	}
	plugins := slices.Clone(r.GetPlugins())
	slices.SortStableFunc(plugins, func(a, b *pb.PluginLatency) int {
		return cmp.Compare(b.GetLatency().GetTotal().AsDuration(), a.GetLatency().GetTotal().AsDuration())
	})
	for _, p := range plugins {
		l := p.GetLatency()
		t.Rows = append(t.Rows, []cell{head(p.GetPlugin()), words(p.GetExtensionPoint()), number(count(l.GetCount())), number(took(l.GetTotal())),
			number(took(l.GetP50())), number(took(l.GetP99()))})
	}
	return t
}

func (v *visit) extenders(r *pb.ListPluginsResponse) table {
	t := table{
		Caption: "Extenders", Empty: "No extender was asked.",
		Columns: []column{{Name: "Extender"}, {Name: "Verb"}, {Name: "Calls", Number: true}, {Name: "Failures", Number: true},
			{Name: "Time", Number: true}, {Name: "p50", Number: true, Help: "read from the metric's buckets"},
			{Name: "p99", Number: true, Help: "read from the metric's buckets"}},
		Command: v.command("get", "plugins", "-o", "json"), Download: download("ListPlugins"),
	}
	for _, x := range r.GetExtenders() {
		l := x.GetLatency()
		failures := number(count(x.GetFailures()))
		if x.GetFailures() > 0 {
			failures = failures.marked("warn")
		}
		t.Rows = append(t.Rows, []cell{head(x.GetExtender()), words(x.GetVerb()), number(count(l.GetCount())), failures,
			number(took(l.GetTotal())), number(took(l.GetP50())), number(took(l.GetP99()))})
	}
	return t
}

func (v *visit) profileFilter(r *pb.ListPluginsResponse) filters {
	var names []string
	for _, u := range r.GetUses() {
		names = append(names, u.GetProfile())
	}
	slices.Sort(names)
	pairs := []string{"", "all"}
	for _, name := range slices.Compact(names) {
		pairs = append(pairs, name, name)
	}
	f := filters{Label: "Filter plugins", Fields: []field{choice("profile", "Profile", v.get("profile"), pairs...)}}
	if v.get("profile") != "" {
		f.Clear = link("plugins")
	}
	return f
}
