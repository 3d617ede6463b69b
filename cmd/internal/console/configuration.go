package console

import (
	"cmp"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func configurationPage() page {
	return page{path: "configuration", title: "Configuration", show: showConfiguration}
}

// configurationShown is what the page shows.
type configurationShown struct {
	Verdict                        verdict
	Differences, Profiles, Lacking table
	NoEffect, Departures           table
	Extenders                      table
}

func showConfiguration(v *visit) (any, error) {
	r, err := v.client.GetConfiguration(v, &pb.GetConfigurationRequest{})
	if err != nil {
		return nil, err
	}
	list := func(caption, column, empty string, lines []string) table {
		t := v.configured(caption, empty, column)
		for _, line := range lines {
			t.Rows = append(t.Rows, []cell{words(line)})
		}
		return t
	}
	c := configurationShown{
		Verdict:    verdict{State: "good", Text: "Pods are scheduled as kube-scheduler would schedule them by this configuration."},
		Profiles:   v.profiles(r.GetProfiles()),
		NoEffect:   list("What has no effect", "Field", "All that is set has an effect.", r.GetNoEffect()),
		Departures: list("Where kube-scheduler decides otherwise by this configuration", "Field", "Nowhere.", r.GetDepartures()),
		Extenders:  list("Extenders", "Extender", "There is none.", r.GetExtenders()),
	}
	if len(r.GetDepartures())+len(r.GetLacking()) > 0 {
		c.Verdict = verdict{State: "warn", Text: "Some pods are not scheduled as kube-scheduler would schedule them by this configuration."}
	}
	c.Differences = v.configured("What is not as in the defaults", "All is as in the defaults.", "Field", "Default", "Here")
	for _, d := range r.GetDifferences() {
		row := []cell{head(d.GetField()), words(cmp.Or(d.GetDefault(), "–")), words(cmp.Or(d.GetValue(), "–"))}
		c.Differences.Rows = append(c.Differences.Rows, row)
	}
	c.Lacking = v.configured("Pending pods that ask for what is not there", "No pending pod does.", "What", "Pods", "Such as")
	c.Lacking.Columns[1].Number = true
	for _, l := range r.GetLacking() {
		c.Lacking.Rows = append(c.Lacking.Rows, []cell{head(l.GetWhat()), number(count(l.GetPods())), words(l.GetExample())})
	}
	return c, nil
}

// configured is a table of a part of the configuration, with the columns of these names.
func (v *visit) configured(caption, empty string, columns ...string) table {
	t := table{Caption: caption, Empty: empty, Command: v.command("get", "configuration"), Download: download("GetConfiguration")}
	for _, name := range columns {
		t.Columns = append(t.Columns, column{Name: name})
	}
	return t
}

func (v *visit) profiles(profiles []*pb.ProfileConfiguration) table {
	t := v.configured("Profiles as they run", "There is none.", "Profile", "Evaluated, with the weights of scores", "Compiled in",
		"Not evaluated")
	for _, p := range profiles {
		not := words(cmp.Or(strings.Join(p.GetNotEvaluated(), ", "), "–"))
		if len(p.GetNotEvaluated()) > 0 {
			not = not.marked("warn")
		}
		t.Rows = append(t.Rows, []cell{head(p.GetName()), words(strings.Join(p.GetEvaluated(), ", ")),
			words(cmp.Or(strings.Join(p.GetCompiledIn(), ", "), "–")), not})
	}
	return t
}
