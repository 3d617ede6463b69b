package observe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// DecisionLine is a decision as the decision log holds it, one JSON object a line. It is a
// stable surface: fields are only ever added.
type DecisionLine struct {
	Seq      uint64 `json:"seq"`
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Profile  string `json:"profile"`
	Node     string `json:"node"`
	Score    int64  `json:"score"`
	Feasible uint32 `json:"feasible"`
	Nodes    uint32 `json:"nodes"`
	Message  string `json:"message,omitempty"`
	// Nominated and Victims are preemption's: the node, and the pods that have to leave so that it has room.
	Nominated string   `json:"nominated,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	// Claims are those that get their devices with the decision.
	Claims []ClaimLine `json:"claims,omitempty"`
	// PodGroup is the pod group that the pod was decided with, as namespace/name; Held is the node that it would have got there, where
	// its mates are too few; Domain is what they share, as key=value: feasible and nodes count within it.
	PodGroup string `json:"podGroup,omitempty"`
	Held     string `json:"held,omitempty"`
	Domain   string `json:"domain,omitempty"`
	// Backfills is the pod group, as namespace/name, whose held room the pod may use, because the pod ends before the group may start.
	Backfills string `json:"backfills,omitempty"`
}

// ClaimLine is a claim of a decision. Claim is namespace/name, or empty for the claim that serves extended resources; devices are
// request/driver/pool/device.
type ClaimLine struct {
	Claim   string   `json:"claim"`
	Devices []string `json:"devices"`
}

// DecisionLog writes decisions as JSON lines. It may be used by any goroutine; an
// error sticks and is returned by Close.
type DecisionLog struct {
	mu  sync.Mutex
	w   *bufio.Writer
	c   io.Closer
	enc *json.Encoder
	err error
}

// NewDecisionLog writes to w, and closes it with Close where it can be closed.
func NewDecisionLog(w io.Writer) *DecisionLog {
	l := &DecisionLog{w: bufio.NewWriterSize(w, 1<<16)}
	l.c, _ = w.(io.Closer)
	l.enc = json.NewEncoder(l.w)
	l.enc.SetEscapeHTML(false)
	return l
}

// Write writes a decision; without a log it goes nowhere.
func (l *DecisionLog) Write(d *pb.Decision) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	var claims []ClaimLine
	for _, c := range d.Claims {
		claims = append(claims, ClaimLine{c.Claim, c.Devices})
	}
	l.err = l.enc.Encode(DecisionLine{
		Seq: d.Seq, Pod: d.Pod, UID: d.Uid, Profile: d.Profile, Node: d.Node,
		Score: d.Score, Feasible: d.Feasible, Nodes: d.Nodes, Message: d.Message,
		Nominated: d.Nominated, Victims: d.Victims, Claims: claims,
		PodGroup: d.PodGroup, Held: d.Held, Domain: d.Domain, Backfills: d.Backfills,
	})
}

// Flush hands what was written to the operating system.
func (l *DecisionLog) Flush() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.w.Flush()
	}
	return l.err
}

// Close flushes and closes.
func (l *DecisionLog) Close() error {
	if l == nil {
		return nil
	}
	err := l.Flush()
	if l.c != nil {
		if e := l.c.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("write decision log: %w", err)
	}
	return nil
}
