package configs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// rewrite makes one wording of what is said in two.
type rewrite struct {
	from *regexp.Regexp
	to   string
}

// decodingRewrites are for errors of decoding. We say what is accepted and where
// in the file it stands; kube-scheduler quotes the file and names its Go types.
var decodingRewrites = []rewrite{
	{regexp.MustCompile(`(?s) in '.*'$`), ""},
	{regexp.MustCompile(`^(decoding .*: )?couldn't get version/kind; json parse error: json: cannot unmarshal .* of type string$`),
		"expected a string"},
	{regexp.MustCompile(`^(decoding .*: )?couldn't get version/kind; json parse error: json: cannot unmarshal .* of type struct .*$`),
		"expected an object"},
	{regexp.MustCompile(`^couldn't get version/kind; json parse error: `), ""},
	{regexp.MustCompile(` in scheme ".*"$`), ""},
	{regexp.MustCompile(`(: it was removed in Kubernetes .*)?; accepted is .*$`), ""},
	{regexp.MustCompile(`got (\S+), Kind=(\w+)(: )?$`), "got $1, Kind=$2"},
	{regexp.MustCompile(`^decoding \.profiles\[\d+\]\.pluginConfig\[\d+\]: `), ""},
	{regexp.MustCompile(`^decoding args for plugin \w+: `), ""},
	{regexp.MustCompile(`^json: `), ""},
	{regexp.MustCompile(`Go struct field \S+ of type`), "a value of type"},
	{regexp.MustCompile(`^(error converting YAML to JSON: )?yaml: (unmarshal errors:\s*)?`), ""},
	{regexp.MustCompile(`^line \d+: `), ""},
}

func decodingText(s string) string { return apply(decodingRewrites, s) }

func apply(list []rewrite, s string) string {
	for _, r := range list {
		s = r.from.ReplaceAllString(s, r.to)
	}
	return strings.TrimSpace(s)
}

var (
	inArguments = regexp.MustCompile(`^decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]): (?:strict decoding error: )?` +
		`decoding args for plugin \w+: strict decoding error: (.*)$`)
	quotedField = regexp.MustCompile(`(unknown field|duplicate field) "([^"]*)"`)
)

// strictTexts takes apart one of kube-scheduler's strict errors. It names a field of a plugin's
// arguments from there on; we name it from the top.
func strictTexts(s string) []string {
	prefix := ""
	if m := inArguments.FindStringSubmatch(s); m != nil {
		prefix, s = m[1]+".args.", m[2]
	}
	fields := quotedField.FindAllStringSubmatch(s, -1)
	var out []string
	if fields == nil {
		for _, line := range strings.Split(decodingText(s), "\n") {
			out = append(out, decodingText(strings.TrimSpace(line)))
		}
		return out
	}
	for _, m := range fields {
		out = append(out, fmt.Sprintf("%s %q", m[1], prefix+m[2]))
	}
	return out
}

// buildingRewrites are for errors of making the scheduler: we cut long names short, and say where plugins come from.
var buildingRewrites = []rewrite{
	{regexp.MustCompile(`( does not exist): plugins of your own are compiled in .*$`), "$1"},
	{regexp.MustCompile(`[-.\w]{300,}.*$`), "…"},
}

// valueRewrites are for errors of validation whose value kube-scheduler prints as its internal types
// have it, and we as the file has it.
var valueRewrites = []rewrite{
	{regexp.MustCompile(`(schedulerName: Duplicate value): .*$`), "$1"},
	{regexp.MustCompile(`(plugins\.queueSort: Invalid value): .*: must be`), "$1: must be"},
	{regexp.MustCompile(`(args\.shape: Invalid value): .*: unexpected`), "$1: unexpected"},
}

func departed(s string) string { return apply(valueRewrites, s) }

var fitArguments = regexp.MustCompile(`^profiles\[(\d+)\]\.pluginConfig\[\d+\]\.args\.` +
	`((?:ignoredResources|ignoredResourceGroups|scoringStrategy).*)$`)

// ofFit tells of NodeResourcesFit's arguments. We check them with all others; kube-scheduler when
// it makes the plugin, if it does.
func (m message) ofFit() bool { return fitArguments.MatchString(m.field) }

// fitText is what kube-scheduler would say of the arguments of a profile's NodeResourcesFit, but for
// those that extenders take the place of.
func fitText(ours []message, profile int, up theirs) string {
	var list []error
	for _, m := range ours {
		if at := fitArguments.FindStringSubmatch(m.field); at != nil && at[1] == fmt.Sprint(profile) && !(up.ignored && replaced(at[2])) {
			list = append(list, errors.New(at[2]+": "+m.text))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return utilerrors.NewAggregate(list).Error()
}

// negativeWeight is our error of a weight below zero. kube-scheduler subtracts it, or
// takes it for an overflow, as the order of plugins has it.
var negativeWeight = regexp.MustCompile(`\.weight: Invalid value: -\d+: must not be negative$`)

// overflow is kube-scheduler's.
var overflow = regexp.MustCompile(`^(placement )?score plugins: total score of Score plugins could overflow$`)

// replaced tells of the argument that extenders take the place of.
func replaced(argument string) bool { return strings.HasPrefix(argument, "ignoredResources[") }

// stricter are the errors of files that kube-scheduler takes.
var stricter = []*regexp.Regexp{
	negativeWeight,
	regexp.MustCompile(`scoringStrategy\.resources\[\d+\]\.name: duplicate "`),
	regexp.MustCompile(`\.name: expected a resource, got ""$`),
	regexp.MustCompile(`addedAffinity\.preferredDuringSchedulingIgnoredDuringExecution\[\d+\]\.weight: .*must be in the range 1-100$`),
	regexp.MustCompile(`expected one document, found a second$`),
	regexp.MustCompile(`^profiles: Too many: `),
}

// onlyStricter tells which of our errors of a file that kube-scheduler takes is not meant.
func onlyStricter(ours []message, up theirs) error {
	for _, m := range ours {
		if !m.stricter(up) {
			return fmt.Errorf("kube-scheduler takes it, we do not: %s", m)
		}
	}
	return nil
}

func (m message) stricter(up theirs) bool {
	for _, r := range stricter {
		if r.MatchString(m.String()) {
			return true
		}
	}
	at := fitArguments.FindStringSubmatch(m.field)
	if at == nil {
		return false
	}
	if up.ignored && replaced(at[2]) {
		return true
	}
	var profile int
	_, err := fmt.Sscan(at[1], &profile)
	return err == nil && profile < len(up.inUse) && !up.inUse[profile]["NodeResourcesFit"]
}

// repairs tells whether what we write comes to the same with kube-scheduler, and what it writes
// itself does not load.
func (u *upstream) repairs(ctx context.Context, written []byte, up theirs) bool {
	own, again := u.load(ctx, []byte(up.written)), u.load(ctx, written)
	return own.err != nil && again.err == nil && again.written == up.written
}

// internal is the version that is none of a file's: kube-scheduler reads it, without defaults.
const internal = `is registered for version "kubescheduler.config.k8s.io/__internal"`
