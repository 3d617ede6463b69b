package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/record"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// showRecord shows a flight recorder's files, with a slider for time.
func (o *offline) showRecord(ctx context.Context, s Streams, c *config.Config) error {
	if o.simulate {
		return usagef("--simulate: a record has been decided; give a dump")
	}
	var parts []record.Part
	for _, name := range o.files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		parts = append(parts, record.Part{Name: name, In: f, Size: info.Size()})
	}
	tape, err := record.OpenTape(ctx, parts)
	if err != nil {
		return err
	}
	from, to := tape.Span()
	records, decisions := tape.Size()
	fmt.Fprintf(s.Err, "%s, %s, from %s to %s\n", numbered(records, "record"), numbered(decisions, "decision"),
		from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	for _, problem := range tape.Problems() {
		fmt.Fprintf(s.Err, "warning: %s\n", problem)
	}
	source := "record " + strings.Join(o.files, ", ")
	p := newPlayer(ctx, tape, source, func(nodes int) (coordinator.SchedulerConfig, error) { return o.scheduler(c, nodes) })
	cfg := console.Config{Conn: p.at(to), Version: Version(), Source: source, Command: s.program(),
		WhatIf:   &console.WhatIf{Missing: "Changes are not tried on a record: take a dump of the cluster, by shardsched snapshot."},
		Timeline: &console.Timeline{From: from, To: to, At: to, Problems: tape.Problems()}}
	err = o.serve(ctx, cfg, func(c *console.Console) http.Handler { return newMoments(c, cfg.Timeline, p.at) })
	return errors.Join(err, p.close())
}

// player is a record and the world that shows one of its moments. Questions about one moment and another take turns.
type player struct {
	ctx    context.Context
	tape   *record.Tape
	source string
	config func(nodes int) (coordinator.SchedulerConfig, error)
	turn   chan struct{} // holds a token while nobody has the rest
	cursor *record.Cursor
	world  *world // nil: nothing was asked yet
	clock  replayed
	sought time.Time // what the world shows
	broken error     // of the world, which can't go on
}

// replayed is a clock that was set to a moment, and goes on from there.
type replayed struct{ set atomic.Pointer[clockSetting] }

type clockSetting struct{ to, at time.Time }

func (c *replayed) turn(to time.Time) { c.set.Store(&clockSetting{to, time.Now()}) }

// now is the time by the clock, which has been set.
func (c *replayed) now() time.Time {
	s := c.set.Load()
	return s.to.Add(time.Since(s.at))
}

func newPlayer(ctx context.Context, tape *record.Tape, source string, cfg func(int) (coordinator.SchedulerConfig, error)) *player {
	p := &player{ctx: ctx, tape: tape, source: source, config: cfg, turn: make(chan struct{}, 1), cursor: tape.Cursor()}
	p.turn <- struct{}{}
	return p
}

// close ends the world.
func (p *player) close() error {
	<-p.turn
	if p.world == nil {
		return nil
	}
	return p.world.end()
}

// atMoment is what a player answers for a moment.
type atMoment struct {
	*player
	at time.Time
}

func (p *player) at(at time.Time) grpc.ClientConnInterface { return atMoment{p, at} }

// Invoke is part of grpc.ClientConnInterface.
func (m atMoment) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) error {
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-m.turn:
	}
	defer func() { m.turn <- struct{}{} }()
	if err := m.seek(m.at); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return m.world.conn.Invoke(ctx, method, request, reply, opts...)
}

// NewStream is part of grpc.ClientConnInterface.
func (atMoment) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "a record has no streams")
}

// mostRecalled is how many decisions a world is told of at the most: a scheduler remembers so many.
const mostRecalled = 1 << 16

// seek has the world show a moment. It goes on where whoever has asked has left: the next one asks for the same.
func (p *player) seek(to time.Time) error {
	if p.world != nil && p.broken == nil && p.sought.Equal(to) {
		return nil
	}
	if p.broken != nil { // what was told got lost
		p.cursor = p.tape.Cursor()
	}
	p.broken = p.show(to)
	p.sought = to
	return p.broken
}

func (p *player) show(to time.Time) error {
	if err := p.cursor.Seek(p.ctx, to); err != nil {
		return err
	}
	view, err := p.cursor.Look(mostRecalled)
	if err != nil {
		return err
	}
	for _, problem := range view.Problems {
		klog.FromContext(p.ctx).Info("An object of the record can't be read, and is left out", "problem", problem)
	}
	p.clock.turn(to)
	if view.Anew {
		if err := p.renew(view); err != nil {
			return err
		}
	}
	return p.tell(view)
}

// renew makes the world anew.
func (p *player) renew(v *record.View) error {
	if p.world != nil {
		err := p.world.end()
		if p.world = nil; err != nil {
			return err
		}
	}
	cfg, err := p.config(len(v.All.Nodes))
	if err != nil {
		return err
	}
	cfg.Observe, cfg.FreeClaims, cfg.Term = true, false, max(v.Begin.GetTerm(), 1)
	cfg.Now, cfg.QueueNow = p.clock.now, p.clock.now
	p.world, err = newWorld(p.ctx, p.source, cfg, v.All)
	return err
}

// tell tells the world what has changed: decisions first, for pods that leave are remembered with theirs.
func (p *player) tell(v *record.View) error {
	made := make([]*pb.PastDecision, len(v.Decisions))
	for i, d := range v.Decisions {
		if made[i] = d.PastDecision; d.Pod != nil {
			made[i].Kind, made[i].Workload = observe.WorkloadOf(d.Pod)
		}
	}
	if err := p.world.Recall(p.ctx, coordinator.Past{Decisions: made}); err != nil {
		return err
	}
	p.world.Deliver(v.Events)
	if err := p.world.Idle(p.ctx); err != nil {
		return err
	}
	refused := make(map[types.UID]coordinator.Refusal, len(v.Waiting))
	for uid, w := range v.Waiting {
		refused[uid] = coordinator.Refusal{Attempts: w.Attempts, Message: w.Message, Failed: w.Failed, At: w.At, Nominated: w.Nominated}
	}
	return p.world.Recall(p.ctx, coordinator.Past{Refused: refused})
}

// keptMoments is how many moments' consoles are kept.
const keptMoments = 64

// moments serves a console of a record. A page of a moment is below /at/MOMENT: links lead to pages of the same.
type moments struct {
	last     *console.Console
	timeline *console.Timeline
	conn     func(time.Time) grpc.ClientConnInterface

	mu   sync.Mutex
	kept *simplelru.LRU[time.Time, *console.Console] // guarded by mu
}

func newMoments(last *console.Console, t *console.Timeline, conn func(time.Time) grpc.ClientConnInterface) *moments {
	kept, _ := simplelru.NewLRU[time.Time, *console.Console](keptMoments, nil) // the size is positive
	return &moments{last: last, timeline: t, conn: conn, kept: kept}
}

// momentPath begins the path of a page of a moment.
const momentPath = "/at/"

// ServeHTTP is part of http.Handler.
func (m *moments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown, path := m.last, r.URL.Path
	if rest, ok := strings.CutPrefix(path, momentPath); ok {
		text, page, _ := strings.Cut(rest, "/")
		at, err := m.timeline.ParseMoment(text)
		if err != nil {
			m.last.Refuse(w, r, err)
			return
		}
		shown, path = m.at(at), "/"+page
	}
	query := r.URL.Query()
	if query.Has(console.MomentParameter) && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		at, err := m.timeline.ParseMoment(query.Get(console.MomentParameter))
		if err != nil {
			shown.Refuse(w, below(r, path), err)
			return
		}
		query.Del(console.MomentParameter)
		to := url.URL{Path: momentPath + at.UTC().Format(time.RFC3339Nano) + path, RawQuery: query.Encode()}
		http.Redirect(w, r, to.String(), http.StatusSeeOther)
		return
	}
	shown.ServeHTTP(w, below(r, path))
}

func (m *moments) at(at time.Time) *console.Console {
	at = at.UTC()
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.kept.Get(at)
	if !ok {
		c = m.last.At(m.conn(at), at)
		m.kept.Add(at, c)
	}
	return c
}

// below is a request for another path.
func below(r *http.Request, path string) *http.Request {
	out := r.WithContext(r.Context())
	at := *r.URL
	at.Path, at.RawPath = path, ""
	out.URL = &at
	return out
}
