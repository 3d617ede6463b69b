package configs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	configv1 "k8s.io/kube-scheduler/config/v1"
	upstreamconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/shardsched/shardsched/coordinator/config"
)

// message is one thing that is wrong with a file: the field, where it is named apart from the
// text, and the text.
type message struct{ field, text string }

func (m message) String() string {
	if m.field == "" {
		return m.text
	}
	return m.field + ": " + m.text
}

// ourMessages takes our error apart.
func ourMessages(err error) []message {
	var list []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	} else {
		list = []error{err}
	}
	out := make([]message, 0, len(list))
	for _, e := range list {
		var one *config.Error
		if !errors.As(e, &one) {
			out = append(out, message{text: e.Error()})
			continue
		}
		out = append(out, message{field: one.Field, text: one.Problem})
	}
	return out
}

// compare holds what we make of a file against what kube-scheduler makes of it; nil: the same, but
// for departures.
func (u *upstream) compare(ctx context.Context, ours *config.Config, ourErr error, up theirs) error {
	switch {
	case ourErr == nil && up.err == nil:
		return u.compareResults(ctx, ours, up)
	case ourErr == nil:
		return fmt.Errorf("kube-scheduler refuses it, we do not: %w", up.err)
	case up.err == nil:
		return onlyStricter(ourMessages(ourErr), up)
	}
	if errors.Is(up.err, errCrashed) {
		return nil
	}
	messages := ourMessages(ourErr)
	if strings.Contains(messages[0].text, internal) {
		return nil
	}
	switch up.stage {
	case decoding:
		return compareDecoding(messages, up.err)
	case validating:
		return compareValidation(messages, up)
	default:
		return compareBuilding(messages, up)
	}
}

func (u *upstream) compareResults(ctx context.Context, ours *config.Config, up theirs) error {
	written, err := ours.YAML()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(up.written, string(written)); diff != "" && !u.repairs(ctx, written, up) {
		return fmt.Errorf("--write-config-to: kube-scheduler's -, ours +\n%s", diff)
	}
	expanded := ours.Expanded()
	if len(expanded) != len(up.lists) {
		return fmt.Errorf("profiles: want %d, got %d", len(up.lists), len(expanded))
	}
	for i, want := range up.lists {
		if diff := cmp.Diff(theirLists(want), ourLists(expanded[i].Plugins)); diff != "" {
			return fmt.Errorf("plugins of profile %s: kube-scheduler's -, ours +\n%s", *expanded[i].SchedulerName, diff)
		}
	}
	return nil
}

// entry is a plugin at an extension point; weight is 0 where none counts.
type entry struct {
	Name   string
	Weight int32
}

func theirLists(p *upstreamconfig.Plugins) map[string][]entry {
	return lists(p, func(s upstreamconfig.PluginSet) (out []entry) {
		for _, e := range s.Enabled {
			out = append(out, entry(e))
		}
		return out
	})
}

func ourLists(p *configv1.Plugins) map[string][]entry {
	var in upstreamconfig.Plugins
	convert := func(s configv1.PluginSet) (out upstreamconfig.PluginSet) {
		for _, e := range s.Enabled {
			made := upstreamconfig.Plugin{Name: e.Name}
			if e.Weight != nil {
				made.Weight = *e.Weight
			}
			out.Enabled = append(out.Enabled, made)
		}
		return out
	}
	in.PreEnqueue, in.QueueSort = convert(p.PreEnqueue), convert(p.QueueSort)
	in.PreFilter, in.Filter, in.PostFilter = convert(p.PreFilter), convert(p.Filter), convert(p.PostFilter)
	in.PreScore, in.Score, in.Reserve, in.Permit = convert(p.PreScore), convert(p.Score), convert(p.Reserve), convert(p.Permit)
	in.PreBind, in.Bind, in.PostBind = convert(p.PreBind), convert(p.Bind), convert(p.PostBind)
	in.PlacementGenerate, in.PlacementScore = convert(p.PlacementGenerate), convert(p.PlacementScore)
	return theirLists(&in)
}

func lists(p *upstreamconfig.Plugins, of func(upstreamconfig.PluginSet) []entry) map[string][]entry {
	return map[string][]entry{
		"preEnqueue": of(p.PreEnqueue), "queueSort": of(p.QueueSort), "preFilter": of(p.PreFilter), "filter": of(p.Filter),
		"postFilter": of(p.PostFilter), "preScore": of(p.PreScore), "score": of(p.Score), "reserve": of(p.Reserve), "permit": of(p.Permit),
		"preBind": of(p.PreBind), "bind": of(p.Bind), "postBind": of(p.PostBind),
		"placementGenerate": of(p.PlacementGenerate), "placementScore": of(p.PlacementScore),
	}
}

// compareDecoding: kube-scheduler tells all unknown and repeated fields at once, or else the first
// value that does not decode; we tell all.
func compareDecoding(ours []message, err error) error {
	var got []string
	for _, m := range ours {
		got = append(got, decodingText(m.text))
	}
	if strict, ok := err.(interface{ Errors() []error }); ok && runtime.IsStrictDecodingError(err) {
		var want []string
		for _, e := range strict.Errors() {
			want = append(want, strictTexts(e.Error())...)
		}
		return sameTexts(want, got)
	}
	if want := decodingText(err.Error()); !slices.Contains(got, want) {
		return fmt.Errorf("error of decoding:\nwant %s\ngot  %s", want, strings.Join(got, "\n     "))
	}
	return nil
}

func compareValidation(ours []message, up theirs) error {
	want, got := []string{}, []string{}
	for _, e := range up.err.(utilerrors.Aggregate).Errors() {
		want = append(want, departed(e.Error()))
	}
	for _, m := range ours {
		if !m.ofFit() && !m.stricter(up) { // kube-scheduler looks at NodeResourcesFit's later
			got = append(got, departed(m.String()))
		}
	}
	return sameTexts(want, got)
}

var ofProfile = regexp.MustCompile(`^initializing profiles: (creating profile for scheduler name [^:]*: )?`)

// compareBuilding: kube-scheduler tells the first thing that is wrong with the first profile. Of
// NodeResourcesFit's arguments it tells all.
func compareBuilding(ours []message, up theirs) error {
	want := ofProfile.ReplaceAllString(up.err.Error(), "")
	if fit, ok := strings.CutPrefix(want, `initializing plugin "NodeResourcesFit": `); ok {
		for i := range up.inUse {
			if got := fitText(ours, i, up); got == fit {
				return nil
			}
		}
		return fmt.Errorf("arguments of NodeResourcesFit:\nwant %s\ngot  %v", fit, ours)
	}
	if overflow.MatchString(want) && negativeWeight.MatchString(ours[0].String()) {
		return nil
	}
	for len(ours) > 1 && (ours[0].ofFit() || ours[0].stricter(up)) {
		ours = ours[1:]
	}
	if ours[0].stricter(up) {
		return nil
	}
	if got := ours[0].text; apply(buildingRewrites, got) != apply(buildingRewrites, want) && !ours[0].ofFit() {
		return fmt.Errorf("error of making the scheduler:\nwant %s\ngot  %s", want, got)
	}
	return nil
}

func sameTexts(want, got []string) error {
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("errors: kube-scheduler's -, ours +\n%s", diff)
	}
	return nil
}
