package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Page is a tab. One goroutine uses it.
type Page struct {
	View  View
	ctx   context.Context
	close context.CancelFunc

	mu       sync.Mutex
	faults   []string
	requests []*Request
	sent     map[string]*Request // by the browser's ID
	pending  int
}

// Request is one that the page has made.
type Request struct {
	URL    string
	Status int64
	// Bytes came over the wire, headers included.
	Bytes int64
	// Failed is why there is no answer; empty: there is one, or it is on its way.
	Failed  string
	settled bool
}

// watcher tells of what the content security policy has refused.
const watcher = `addEventListener("securitypolicyviolation", e => console.error("content security policy: " + e.violatedDirective +
	" refuses " + (e.blockedURI || "inline") + " " + (e.sample || "") + " in " + e.sourceFile + ":" + e.lineNumber));`

// hear is called for each event of the page, in order.
func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		switch e.Type {
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert:
			var words []string
			for _, a := range e.Args {
				words = append(words, cmp.Or(a.Description, strings.Trim(string(a.Value), `"`)))
			}
			p.fault("console: %s", strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.fault("uncaught: %s (%s:%d)", text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber+1)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.fault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		p.fault("a script opened a dialog: %s", e.Message)
	case *network.EventRequestWillBeSent:
		if p.sent[string(e.RequestID)] == nil { // a redirect has the ID again
			p.pending++
		}
		r := &Request{URL: e.Request.URL}
		p.sent[string(e.RequestID)] = r
		p.requests = append(p.requests, r)
	case *network.EventResponseReceived:
		if r := p.sent[string(e.RequestID)]; r != nil {
			r.Status = e.Response.Status
		}
	case *network.EventLoadingFinished:
		if r := p.sent[string(e.RequestID)]; r != nil && !r.settled {
			r.Bytes, r.settled = int64(e.EncodedDataLength), true
			p.pending--
		}
	case *network.EventLoadingFailed:
		if r := p.sent[string(e.RequestID)]; r != nil && !r.settled {
			r.Failed, r.settled = cmp.Or(e.ErrorText, "canceled"), true
			p.pending--
		}
	}
}

// maxFaults bounds what is kept of a page that complains all the time.
const maxFaults = 100

func (p *Page) fault(format string, a ...any) {
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, strings.TrimSpace(fmt.Sprintf(format, a...)))
	}
}

// Faults are what the browser has complained of since the last call: errors and warnings of the console, exceptions that nobody caught,
// what the content security policy refused, dialogs that a script opened.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.faults
	p.faults = nil
	return list
}

// Requests are those since the last call.
func (p *Page) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Request
	for _, r := range p.requests {
		list = append(list, *r)
	}
	p.requests = nil
	return list
}

// Outside are the addresses among requests that neither one of the hosts (host:port) nor the page itself was asked for.
func Outside(requests []Request, hosts ...string) (list []string) {
	for _, r := range requests {
		u, err := url.Parse(r.URL)
		if err != nil || !slices.Contains([]string{"data", "blob", "file", "about"}, u.Scheme) && !slices.Contains(hosts, u.Host) {
			list = append(list, r.URL)
		}
	}
	return list
}

// Close closes the tab.
func (p *Page) Close() { p.close() }

// Go opens an address and returns when it is loaded and nothing more is asked for.
func (p *Page) Go(address string) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return fmt.Errorf("open %s: %w", address, err)
	}
	return p.Settle()
}

// quiet is for how long nothing may be asked for before a page counts as loaded; less than the time between two of its own updates.
const quiet = 300 * time.Millisecond

// Settle waits until no request has been under way for a while.
func (p *Page) Settle() error {
	for since, until := time.Now(), time.Now().Add(patience); time.Since(since) < quiet; {
		time.Sleep(20 * time.Millisecond) // the browser tells of requests, not of their absence
		p.mu.Lock()
		n := p.pending
		p.mu.Unlock()
		if n > 0 {
			since = time.Now()
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d requests are still under way after %v", n, patience)
		}
	}
	return nil
}

// Eval evaluates an expression in the page. A promise is waited for.
func Eval[T any](p *Page, expression string) (out T, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return out, fmt.Errorf("evaluate %.200s: %w", expression, err)
	}
	return out, nil
}

// Until waits until an expression is true, through navigations too.
func (p *Page) Until(expression string) error {
	for until := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // an expression has to be asked again
		ok, err := Eval[bool](p, "!!("+expression+")")
		switch {
		case ok && err == nil:
			return nil
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		case time.Now().After(until):
			text, _ := Eval[string](p, `document.title + "\n" + document.body.innerText.slice(0, 4000)`)
			return fmt.Errorf("waited %v for %s (%v); the page says\n%s", patience, expression, err, text)
		}
	}
}

// Press presses keys, such as those of chromedp/kb.
func (p *Page) Press(keys string, with ...kb.Modifier) error {
	return chromedp.Do(p.ctx, chromedp.KeyEvent(keys, chromedp.KeyModifiers(with...)))
}

// ClickAt clicks at a point of the view, in CSS pixels.
func (p *Page) ClickAt(x, y float64) error { return chromedp.Do(p.ctx, chromedp.MouseClickXY(x, y)) }

// Point moves the mouse there.
func (p *Page) Point(x, y float64) error {
	return chromedp.Do(p.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
}

// Click clicks in the middle of what a CSS selector finds first.
func (p *Page) Click(selector string) error {
	at, err := p.middle(selector)
	if err != nil {
		return err
	}
	return p.ClickAt(at[0], at[1])
}

func (p *Page) middle(selector string) ([2]float64, error) {
	quoted, _ := json.Marshal(selector) // a string
	return Eval[[2]float64](p, `(() => { const e = document.querySelector(`+string(quoted)+`); if (!e) throw new Error("nothing matches");
		e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
}

// PNG is what is seen of the page; whole: all of it, however high.
func (p *Page) PNG(whole bool) ([]byte, error) {
	if whole {
		return chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	}
	return chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
}
