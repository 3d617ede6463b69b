package upkeep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

const key = "/shardsched/c/leader/"

// rig is an etcd whose history nobody compacts but those who are tested, on a clock of the test's own.
type rig struct {
	t     *testing.T
	etcd  *clientv3.Client
	clock *clocktesting.FakeClock
	reg   *prometheus.Registry
	*Upkeep
}

func newRig(t *testing.T, interval time.Duration, quota int64) *rig {
	t.Helper()
	t.Parallel()
	server, err := embedetcd.Start(t.Context(), embedetcd.Config{DataDir: t.TempDir(), QuotaBytes: quota, History: 24 * time.Hour,
		Volatile: true, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &rig{t: t, etcd: c, clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), reg: prometheus.NewRegistry()}
	r.Upkeep = New(Config{Client: c, Key: key, Interval: interval, Registerer: r.reg, Clock: r.clock})
	return r
}

// put writes, and returns the revision of it.
func (r *rig) put() int64 {
	r.t.Helper()
	put, err := r.etcd.Put(r.t.Context(), "k", "v")
	if err != nil {
		r.t.Fatal(err)
	}
	return put.Header.Revision
}

// lookAfter lets so many minutes pass, with a look after each.
func (r *rig) lookAfter(minutes int) {
	for range minutes {
		r.clock.Step(time.Minute)
		r.look(klog.NewContext(r.t.Context(), klog.Logger{}))
	}
}

// oldest is the oldest revision that etcd has.
func (r *rig) oldest(last int64) int64 {
	for rev := int64(1); ; rev++ {
		_, err := r.etcd.Get(r.t.Context(), "k", clientv3.WithRev(rev))
		if err == nil || rev == last {
			return rev
		}
		if !errors.Is(err, rpctypes.ErrCompacted) {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) compactedAt() time.Time {
	return time.Unix(int64(testutil.ToFloat64(r.metrics.compaction)), 0)
}

func TestHistoryIsKeptForTheInterval(t *testing.T) {
	r := newRig(t, 5*time.Minute, 0)
	begin := r.clock.Now()
	if err := r.permission(t.Context()); err != nil || !r.allowed {
		t.Fatalf("permission: got %v, %v, want it to be given", r.allowed, err)
	}
	revisions := []int64{1} // by the minute
	for minute, oldest := range []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 6, 6, 6, 6, 6, 11, 11} {
		if minute == 0 {
			continue
		}
		revisions = append(revisions, r.put())
		r.lookAfter(1)
		if got, want := r.oldest(revisions[minute]), revisions[oldest]; got != want {
			t.Errorf("oldest revision after %d minutes: got %d, want %d, of %v", minute, got, want, revisions)
		}
		if got, want := r.compactedAt(), begin.Add(time.Duration(oldest)*time.Minute); !got.Equal(want) {
			t.Errorf("compacted after %d minutes: got until %v, want %v", minute, got, want)
		}
	}
	r.lookAfter(20) // nobody writes
	last := revisions[len(revisions)-1]
	if age := r.clock.Since(r.compactedAt()); age < 5*time.Minute || age > 10*time.Minute {
		t.Errorf("while nobody writes: got compacted until %v ago, want between one interval and two", age)
	}
	if got := r.oldest(last); got != last {
		t.Errorf("oldest revision while nobody writes: got %d, want the last, %d", got, last)
	}
}

// TestTwoThatCompactDoNotMindEachOther has another coordinator come later, so that its marks are others.
func TestTwoThatCompactDoNotMindEachOther(t *testing.T) {
	r := newRig(t, 2*time.Minute, 0)
	other := New(Config{Client: r.etcd, Key: key, Interval: 2 * time.Minute, Clock: r.clock})
	_, ctx := ktesting.NewTestContext(t)
	for range 6 {
		r.put()
		r.lookAfter(1)
		if err := other.history(ctx); err != nil {
			t.Errorf("the other: %v", err)
		}
		if err := r.history(ctx); err != nil {
			t.Errorf("the first: %v", err)
		}
	}
	if age := r.clock.Since(other.compacted.at); age < 2*time.Minute || age > 4*time.Minute {
		t.Errorf("got compacted until %v ago, want between one interval and two", age)
	}
}

func TestWhatOthersCompactIsFoundOut(t *testing.T) {
	r := newRig(t, 0, 0)
	begin := r.clock.Now()
	if err := r.permission(t.Context()); err != nil {
		t.Errorf("permission where others compact: got %v, want nobody to ask", err)
	}
	var revisions []int64
	for range 10 {
		revisions = append(revisions, r.put())
		r.lookAfter(1)
	}
	if got := r.compactedAt(); !got.Equal(begin) {
		t.Errorf("nobody compacts: got %v, want the beginning, %v", got, begin)
	}
	if _, err := r.etcd.Compact(t.Context(), revisions[6]); err != nil {
		t.Fatal(err)
	}
	r.put()
	r.lookAfter(1)
	if got, want := r.compactedAt(), begin.Add(7*time.Minute); !got.Equal(want) {
		t.Errorf("after another's compaction: got %v, want %v", got, want)
	}
	last := r.put()
	r.lookAfter(1)
	if _, err := r.etcd.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	r.lookAfter(20) // nobody writes
	if got := r.compactedAt(); !got.Equal(r.clock.Now()) {
		t.Errorf("all is compacted and nobody writes: got %v, want now, %v", got, r.clock.Now())
	}
	r.put()
	r.lookAfter(1)
	for range 3 * maxMarks {
		r.note(mark{r.clock.Now(), r.marks[len(r.marks)-1].revision})
	}
	if len(r.marks) > maxMarks {
		t.Errorf("marks: got %d, want no more than %d", len(r.marks), maxMarks)
	}
}

// TestMarksOfAnotherEtcdAreForgotten: a revision that etcd does not have yet can not be compacted.
func TestMarksOfAnotherEtcdAreForgotten(t *testing.T) {
	r := newRig(t, time.Minute, 0)
	r.put()
	r.marks = []mark{{r.clock.Now(), 1 << 40}}
	r.clock.Step(time.Minute)
	if err := r.history(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
	if len(r.marks) != 1 || r.marks[0].revision == 1<<40 {
		t.Errorf("got marks %v, want that of this etcd only", r.marks)
	}
}

// TestAFullEtcdIsCompactedAndTold fills an etcd up to its quota.
func TestAFullEtcdIsCompactedAndTold(t *testing.T) {
	const quota = 4 << 20
	r := newRig(t, time.Minute, quota)
	r.lookAfter(1)
	if got := testutil.ToFloat64(r.metrics.alarms.WithLabelValues("NOSPACE")); got != 0 {
		t.Errorf("alarm at first: got %v, want 0", got)
	}
	var last int64
	for {
		put, err := r.etcd.Put(t.Context(), "k", strings.Repeat("x", 100_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = put.Header.Revision
	}
	log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	r.look(klog.NewContext(t.Context(), log))
	if got := testutil.ToFloat64(r.metrics.alarms.WithLabelValues("NOSPACE")); got != 1 {
		t.Errorf("alarm: got %v, want 1", got)
	}
	if size, q := testutil.ToFloat64(r.metrics.size.WithLabelValues()), testutil.ToFloat64(r.metrics.quota.WithLabelValues()); size < quota/2 || q != quota {
		t.Errorf("got a size of %v and a quota of %v, want about as much as the quota, %d", size, q, quota)
	}
	if text := log.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(text, "NOSPACE") || !strings.Contains(text, "docs/etcd.md") {
		t.Errorf("log: got %q, want the alarm and what to do", text)
	}
	r.lookAfter(2) // compaction needs no room
	if got := r.oldest(last); got != last {
		t.Errorf("oldest revision of a full etcd: got %d, want the last, %d", got, last)
	}
}

// refusing is an etcd that lets nobody compact.
type refusing struct {
	clientv3.KV
	code codes.Code
}

func (r refusing) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, status.Error(r.code, "no")
}

func TestAnEtcdThatLetsNobodyCompactEndsIt(t *testing.T) {
	for code, ends := range map[codes.Code]bool{codes.PermissionDenied: true, codes.Unimplemented: true, codes.Unavailable: false} {
		t.Run(code.String(), func(t *testing.T) {
			r := newRig(t, time.Minute, 0)
			r.etcd.KV = refusing{r.etcd.KV, code}
			err := r.permission(t.Context())
			if ends && (err == nil || !strings.Contains(err.Error(), "--etcd-compaction-interval 0")) {
				t.Errorf("got %v, want an error that says what to do", err)
			}
			if !ends && (err != nil || r.allowed) {
				t.Errorf("got %v, %v, want it to be asked again", r.allowed, err)
			}
			if ends {
				if got := r.Run(t.Context()); got == nil || got.Error() != err.Error() {
					t.Errorf("Run: got %v, want %v", got, err)
				}
			}
		})
	}
}
