package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/summary"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// lineEvery is how often a pipe is told of progress.
const lineEvery = 2 * time.Second

// progress tells how far a run is: a bar under a terminal, now and then a line
// in a pipe. It goes to Streams.Err.
type progress struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil: lines
	total int
	now   func() time.Time
	next  time.Time // of the next line
}

func newProgress(s Streams, total int) *progress {
	p := &progress{out: s.Err, total: total, now: time.Now}
	p.next = p.now().Add(lineEvery)
	if s.Terminal(s.Err) && total > 0 {
		style := s.Style(s.Err)
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(s.Err),
			progressbar.OptionSetDescription("scheduling"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("pods"),
			progressbar.OptionEnableColorCodes(style.Color),
			progressbar.OptionSetTheme(theme(style)),
			progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	return p
}

// waiting counts the pods that are to be placed: those that have no node and have not ended.
func waiting(pods []*v1.Pod) (n int) {
	for _, p := range pods {
		if p.Spec.NodeName == "" && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			n++
		}
	}
	return n
}

// theme keeps to characters that any terminal's font has: those of ThemeUnicode are in the
// private use area.
func theme(style summary.Style) progressbar.Theme {
	if style.Unicode {
		return progressbar.ThemeDefault
	}
	return progressbar.ThemeASCII
}

// update tells the newest figures.
func (p *progress) update(s *pb.Summary) {
	decided := min(p.total, int(s.GetPodsBound()+s.GetPodsPending()))
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("bound %d, pending %d", s.GetPodsBound(), s.GetPodsPending()))
		p.bar.Set(decided)
		return
	}
	if now := p.now(); !now.Before(p.next) {
		p.next = now.Add(lineEvery)
		fmt.Fprintf(p.out, "%d of %d pods: %d bound, %d pending\n", decided, p.total, s.GetPodsBound(), s.GetPodsPending())
	}
}

// done clears the bar.
func (p *progress) done() {
	if p.bar != nil {
		p.bar.Finish()
	}
}

// printSummary writes a summary to w as text or json.
func printSummary(s Streams, w io.Writer, form string, sum *pb.Summary) error {
	switch cmp.Or(form, "text") {
	case "text":
		return summary.Render(w, sum, s.Style(w))
	case "json":
		return summary.JSON(w, sum)
	case "yaml":
		return printMessage(w, form, sum)
	}
	return fmt.Errorf("a summary has no form %q", form)
}
