package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shardsched/shardsched/cmd/internal/whatif"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// maxManifests is how many bytes of manifests one question may have, and maxQuestion how large its form is at the most.
	maxManifests = 4 << 20
	maxQuestion  = maxManifests + 256<<10
	// maxNamed is how many nodes and workloads one question may name.
	maxNamed = 1000
	// shownPods is how many pods of a workload the page lists: the file has all.
	shownPods = 50
	// shownRows is how many rows of each table, and lines, the page has; shownWorkloads how many workloads it lists the pods of.
	shownRows, shownWorkloads = 500, 100
)

// Question is a change that is asked about. Nothing in it can be taken for a flag.
type Question struct {
	// Manifests is YAML or JSON; empty: none is given.
	Manifests string
	// Drain, Cordon and Remove are names of nodes.
	Drain, Cordon, Remove []string
	// Add are COUNT=node/NAME, Scale are KIND/NAMESPACE/NAME=REPLICAS.
	Add, Scale []string
}

// Asks tells whether it asks anything.
func (q *Question) Asks() bool {
	return q.Manifests != "" || len(q.Drain)+len(q.Cordon)+len(q.Remove)+len(q.Add)+len(q.Scale) > 0
}

// Flags are those that `shardsched simulate` takes for it beside the files.
func (q *Question) Flags() (flags []string) {
	for _, x := range []struct {
		flag   string
		values []string
	}{{"--drain", q.Drain}, {"--cordon", q.Cordon}, {"--remove-node", q.Remove}, {"--add-nodes", q.Add}, {"--scale", q.Scale}} {
		for _, value := range x.values {
			flags = append(flags, x.flag+"="+value)
		}
	}
	return flags
}

// WhatIf answers what a change comes to, on a copy of the cluster.
type WhatIf struct {
	// Answer returns what `shardsched simulate -o json` writes, and what it says beside. An error is a gRPC status: INVALID_ARGUMENT of a
	// question that can't be answered, with the reason; RESOURCE_EXHAUSTED where another one is under way.
	Answer func(context.Context, *Question) (report []byte, said string, err error)
	// Command begins the command line that asks the same, up to its input: "simulate -f cluster.json". Copy says what the copy is made of.
	Command []string
	Copy    string
	// Missing is why there is none: Answer is nil then.
	Missing string
}

func whatIfPage() page {
	return page{path: "whatif", title: "What if", maxBody: maxQuestion, styles: []string{"whatif.css"}, show: showWhatIf}
}

// whatIfShown is what the page shows.
type whatIfShown struct {
	Missing, Copy string
	// The form, as it was filled in.
	Drain, Cordon, Remove, Add, Scale, Manifests string
	// Wrong is why there is no answer, Said what was said beside it.
	Wrong, Said string
	Answer      *whatIfAnswer // nil: nothing was asked
	Command     string
	Files       bool // the command line names the manifests' file
}

type whatIfAnswer struct {
	Verdict verdict
	Table   table
	Pending table
	Pays    table
	Lines   []string
	Pods    []table
}

func showWhatIf(v *visit) (any, error) {
	w := v.config.WhatIf
	if w == nil || w.Answer == nil {
		out := whatIfShown{Missing: "This console has no copy of the cluster to try a change on."}
		if w != nil {
			out.Missing = cmp.Or(w.Missing, out.Missing)
		}
		return out, nil
	}
	if _, err := v.client.ListWorkers(v, &pb.ListWorkersRequest{}); err != nil { // a standby leads to the leader
		return nil, err
	}
	form, err := v.form()
	if err != nil {
		return nil, err
	}
	out := whatIfShown{Copy: w.Copy, Drain: form.get("drain"), Cordon: form.get("cordon"), Remove: form.get("remove"), Add: form.get("add"),
		Scale: form.get("scale"), Manifests: form.get("manifests")}
	if v.request.Method != http.MethodPost {
		return out, nil
	}
	q, err := form.question()
	if err != nil {
		out.Wrong = err.Error()
		return out, nil
	}
	out.Command, out.Files = v.whatIfCommand(w, q), q.Manifests != ""
	report, said, err := w.Answer(v, q)
	if out.Said = said; err != nil {
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.ResourceExhausted && code != codes.DeadlineExceeded {
			return nil, err
		}
		out.Wrong = status.Convert(err).Message()
		return out, nil
	}
	if form.get("form") == "json" {
		return file{name: "whatif.json", kind: "application/json", content: report}, nil
	}
	r, err := whatif.ReadReport(bytes.NewReader(report))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the answer can't be read: %v", err)
	}
	out.Answer = answerOf(r)
	return out, nil
}

// whatIfCommand is the command line that asks the same.
func (v *visit) whatIfCommand(w *WhatIf, q *Question) string {
	line := []string{v.config.Command}
	for _, word := range w.Command {
		line = append(line, Quoted(word))
	}
	if q.Manifests != "" {
		line = append(line, "-f", "manifests.yaml")
	}
	for _, flag := range q.Flags() {
		line = append(line, Quoted(flag))
	}
	return strings.Join(line, " ")
}

// form is what a question is asked by: of a GET its query alone, which fills the form in.
type form map[string][]string

func (f form) get(name string) string { return strings.TrimSpace(strings.Join(f[name], "\n")) }

// form reads the form of a request.
func (v *visit) form() (form, error) {
	if v.request.Method != http.MethodPost {
		return form(v.query), nil
	}
	const want = "want a form of type multipart/form-data"
	reader, err := v.request.MultipartReader()
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s: %v", want, err)
	}
	out := form{}
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil {
			err = out.read(part)
		}
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return nil, status.Errorf(codes.InvalidArgument, "the form is too large: at most %d bytes of manifests are read", maxManifests)
		}
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %v", want, err)
		}
	}
}

// read takes a field of the form in. The visit bounds its size.
func (f form) read(part *multipart.Part) error {
	text, err := io.ReadAll(part)
	name := part.FormName()
	if len(f[name]) >= 64 || len(f) >= 64 {
		return errors.New("there are too many fields")
	}
	if len(text) > 0 {
		f[name] = append(f[name], string(text))
	}
	return err
}

// words are the values of a field, which space or commas part.
func (f form) words(name string) []string {
	return strings.FieldsFunc(f.get(name), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// addForm is COUNT=NAME, scaleForm KIND/NAMESPACE/NAME=REPLICAS.
const (
	addForm   = `^([1-9][0-9]{0,5})=(?:node/)?([a-z0-9][-a-z0-9.]{0,252})$`
	scaleForm = `^[a-z]{1,30}/[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}=[0-9]{1,7}$`
)

// question reads the form. An error names the field.
func (f form) question() (*Question, error) {
	q, add, scale := &Question{}, regexp.MustCompile(addForm), regexp.MustCompile(scaleForm)
	named := 0
	for _, x := range []struct {
		field string
		into  *[]string
	}{{"drain", &q.Drain}, {"cordon", &q.Cordon}, {"remove", &q.Remove}} {
		for _, name := range f.words(x.field) {
			name = strings.TrimPrefix(name, "node/")
			if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
				return nil, fmt.Errorf("%s: %.100q is no name of a node: %s", x.field, name, wrong[0])
			}
			*x.into = append(*x.into, name)
			named++
		}
	}
	for _, text := range f.words("add") {
		m := add.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("add: expected COUNT=NAME of a node, such as 3=node-1, got %.100q", text)
		}
		q.Add = append(q.Add, m[1]+"=node/"+m[2])
		named++
	}
	for _, text := range f.words("scale") {
		if !scale.MatchString(strings.ToLower(text)) {
			return nil, fmt.Errorf("scale: expected KIND/NAMESPACE/NAME=REPLICAS, such as deployment/shop/web=10, got %.100q", text)
		}
		q.Scale = append(q.Scale, strings.ToLower(text))
		named++
	}
	// What stands in the field, and a file beside it.
	q.Manifests = strings.Join(slices.DeleteFunc(append(slices.Clone(f["manifests"]), f["file"]...),
		func(text string) bool { return strings.TrimSpace(text) == "" }), "\n---\n")
	switch {
	case len(q.Manifests) > maxManifests:
		return nil, fmt.Errorf("manifests: expected at most %d bytes, got %d", maxManifests, len(q.Manifests))
	case named > maxNamed:
		return nil, fmt.Errorf("expected at most %d nodes and workloads, got %d", maxNamed, named)
	case !q.Asks():
		return nil, errors.New("nothing is asked: name nodes, workloads, or give manifests")
	}
	return q, nil
}

// answerOf words a report.
func answerOf(r *whatif.Report) *whatIfAnswer {
	a := &whatIfAnswer{Lines: r.Lines()}
	pending := 0
	for _, w := range slices.Concat(r.Change, r.Others) {
		pending += max(w.Pending.After-w.Pending.Before, 0)
	}
	switch {
	case r.Placed:
		a.Verdict = verdict{State: "good", Text: "Yes: all of the change has a place, and every drained node is empty."}
	case pending > 0:
		a.Verdict = verdict{State: "bad", Text: "No: " + strconv.Itoa(pending) + " more pods pend than before."}
	default:
		a.Verdict = verdict{State: "bad", Text: "No: not all of the change is placed, or a node is not empty."}
	}
	for _, d := range r.Drains {
		a.Verdict.Wrong = append(a.Verdict.Wrong, d.Lines()...)
	}
	a.Table = table{Caption: "Workloads of the change, before → after", Empty: "The change names no workload, and takes no pod off its node.",
		Columns: []column{{Name: "Workload"}, {Name: "Change"}, {Name: "Pods", Number: true}, {Name: "Placed", Number: true},
			{Name: "Pending", Number: true}, {Name: "Where"}}}
	for i, row := range r.Rows() {
		pends := number(row[4])
		if r.Change[i].Pending.After > 0 {
			pends = pends.marked("bad")
		}
		a.Table.Rows = append(a.Table.Rows, []cell{
			head(row[0]), words(row[1]), number(arrow(row[2])), number(arrow(row[3])), pends, words(row[5]),
		})
	}
	a.Pending = table{Caption: "What pends, and why", Empty: "Nothing of it pends.",
		Columns: []column{{Name: "Workload"}, {Name: "Pods", Number: true}, {Name: "Why"}, {Name: "What would help"}}}
	for _, w := range slices.Concat(r.Change, r.Others) {
		for _, x := range w.Reasons {
			a.Pending.Rows = append(a.Pending.Rows, []cell{head(w.Key.String()), number(strconv.Itoa(x.Pods)), words(x.Why), words(x.Help)})
		}
	}
	a.Pays = paysOf(r)
	for _, t := range []*table{&a.Table, &a.Pending, &a.Pays} {
		if more := len(t.Rows) - shownRows; more > 0 {
			t.Rows, t.LeftOut = t.Rows[:shownRows], inTheFile(more)
		}
	}
	if more := len(a.Lines) - shownRows; more > 0 {
		a.Lines = append(a.Lines[:shownRows:shownRows], inTheFile(more))
	}
	for _, w := range r.Change[:min(len(r.Change), shownWorkloads)] {
		a.Pods = append(a.Pods, podsOf(w))
	}
	return a
}

// inTheFile says what the page leaves out.
func inTheFile(n int) string { return fmt.Sprintf("%d more are in the answer as JSON.", n) }

// arrow has a pair told by a sign.
func arrow(pair string) string { return strings.ReplaceAll(pair, "->", "→") }

// paysOf tells who has to leave, and which budgets break.
func paysOf(r *whatif.Report) table {
	t := table{Caption: "Who pays", Empty: "Nobody is pushed out, and no budget breaks.",
		Columns: []column{{Name: "Who"}, {Name: "What happens"}, {Name: "Because of"}}}
	for _, p := range r.Preempted {
		t.Rows = append(t.Rows, []cell{
			head(p.Key.String()),
			words(fmt.Sprintf("%d pods are pushed out: %d made again and placed, %d pend", len(p.Pods), p.PlacedAgain, p.Pending)).below(p.Why),
			words(strings.Join(p.By, ", ")),
		})
	}
	for _, b := range r.Budgets {
		t.Rows = append(t.Rows, []cell{
			head("PodDisruptionBudget " + b.Namespace + "/" + b.Name),
			words(fmt.Sprintf("%d of %d pods are healthy at the worst moment", b.Lowest, b.Desired)).marked("bad"),
			words(fmt.Sprintf("%d before, %d in the end", b.Before, b.After)),
		})
	}
	return t
}

// podsOf lists the pods of a workload.
func podsOf(w whatif.Workload) table {
	t := table{Caption: "Pods of " + w.Key.String(), Empty: "None.",
		Columns: []column{{Name: "Pod"}, {Name: "Before"}, {Name: "After"}, {Name: "Why it pends"}}}
	for _, p := range w.Pods[:min(len(w.Pods), shownPods)] {
		after := words(cmp.Or(p.Node, "pending"))
		switch {
		case p.Gone:
			after = words("gone")
		case p.Node == "":
			after = after.marked("bad")
		}
		t.Rows = append(t.Rows, []cell{head(p.Name), words(cmp.Or(p.Was, "–")), after, words(p.Why)})
	}
	if more := len(w.Pods) - shownPods; more > 0 {
		t.LeftOut = inTheFile(more)
	}
	return t
}
