package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds an answer, beside answerShare times its question.
const (
	maxAnswer   = 64 << 20
	answerShare = 2
	// maxError bounds what is read of an answer that is an error, so that its connection can
	// be used again.
	maxError = 64 << 10
	// maxSaid bounds an error that an extender words: it is kept with the pod's decision.
	maxSaid = 1 << 10
)

// clipped is what an extender words, as far as it is kept.
func clipped(text string) string {
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + "…"
}

// send asks for a verb when it is its turn, and reads the answer.
func (e *Extender) send(ctx context.Context, v Verb, question, answer any) error {
	select {
	case e.gates[v] <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.gates[v] }()
	if e.meter == nil {
		return e.post(ctx, v, question, answer)
	}
	e.meter.Began(v)
	begin := time.Now()
	err := e.post(ctx, v, question, answer)
	e.meter.Ended(v, time.Since(begin), err)
	return err
}

func (e *Extender) post(ctx context.Context, v Verb, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	url := e.url(v)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, maxError)
		return fmt.Errorf("failed %v with extender at URL %v, code %v", e.paths[v], public(url), resp.StatusCode)
	}
	return decode(resp.Body, url, maxAnswer+answerShare*int64(len(body)), answer)
}

// decode reads the first JSON value of an answer; what follows it is not looked at.
func decode(r io.Reader, url string, most int64, answer any) error {
	return json.NewDecoder(&bounded{r: r, left: most, most: most, url: url}).Decode(answer)
}

// bounded reads so many bytes, and fails where there are more.
type bounded struct {
	r          io.Reader
	left, most int64
	url        string
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// Nothing may follow but the end.
		var one [1]byte
		n, err := b.r.Read(one[:])
		if n > 0 {
			return 0, fmt.Errorf("answer of extender at URL %v is larger than %d bytes", public(b.url), b.most)
		}
		return 0, err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
