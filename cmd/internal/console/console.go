package console

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Path is below which the console is served.
const Path = "/console/"

// Config says what is shown.
type Config struct {
	// Conn reaches the scheduler's client API.
	Conn grpc.ClientConnInterface
	// Version is that of the program.
	Version string
	// Command begins the command lines that pages name, such as "shardsched" or "kubectl shardsched"; empty: shardsched.
	Command string
	// Flags follow each command line, such as "--address 10.0.0.7:7450"; empty: none are needed.
	Flags string
	// Source is what is shown, where that is no live scheduler, such as "dump of 2026-07-01"; empty: a live one.
	Source string
	// Timeline is that of a record, which is shown as of one of its moments; nil: there is none.
	Timeline *Timeline
	// WhatIf answers what changes come to; nil: nobody does.
	WhatIf *WhatIf
	// Now is the clock; nil: the real one.
	Now func() time.Time
}

// Console serves the pages, below Path.
type Console struct {
	config    Config
	client    pb.SchedulerServiceClient
	gateway   *gateway
	assets    assets
	pages     []page
	templates map[string]*template.Template // by path
	now       func() time.Time
}

// New makes a console. It starts nothing.
func New(cfg Config) (*Console, error) {
	if cfg.Command == "" {
		cfg.Command = "shardsched"
	}
	conn := newShared(cfg.Conn)
	c := &Console{config: cfg, client: pb.NewSchedulerServiceClient(conn), gateway: newGateway(conn), pages: pages()}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	c.now = func() time.Time { return now().UTC() }
	var err error
	if c.assets, err = readAssets(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	if c.templates, err = c.parse(); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	at, ok := strings.CutPrefix(r.URL.Path, Path)
	if !ok {
		if r.URL.Path == strings.TrimSuffix(Path, "/") {
			http.Redirect(w, r, "console/", http.StatusMovedPermanently)
			return
		}
		http.NotFound(w, r)
		return
	}
	p := c.page(at)
	if !c.allows(w, r, p) {
		return
	}
	switch {
	case strings.HasPrefix(at, "assets/"):
		c.assets.serve(w, r, strings.TrimPrefix(at, "assets/"))
	case strings.HasPrefix(at, apiPath):
		c.gateway.serve(w, r, strings.TrimPrefix(at, apiPath))
	case p == nil:
		c.tell(w, r, trouble{Code: http.StatusNotFound, Title: "No such page", Text: fmt.Sprintf("The console has no page %q.", at)})
	default:
		c.show(w, r, p)
	}
}

// allows refuses methods that change something. A page that takes a body takes it from the console's own pages.
func (c *Console) allows(w http.ResponseWriter, r *http.Request, p *page) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		if p != nil && p.maxBody > 0 {
			if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
				r.Body = http.MaxBytesReader(w, r.Body, p.maxBody)
				return true
			}
			http.Error(w, "only the console's own page may send this: want Sec-Fetch-Site: same-origin", http.StatusForbidden)
			return false
		}
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "the console is read: want GET or HEAD", http.StatusMethodNotAllowed)
	return false
}

func (c *Console) page(path string) *page {
	for i := range c.pages {
		if c.pages[i].path == path {
			return &c.pages[i]
		}
	}
	return nil
}

// show answers with a page, or with what kept it.
func (c *Console) show(w http.ResponseWriter, r *http.Request, p *page) {
	v := &visit{Context: r.Context(), client: c.client, query: r.URL.Query(), request: r, config: c.config, now: c.now()}
	content, err := p.show(v)
	if err != nil {
		c.tell(w, r, troubleOf(status.Convert(err), p))
		return
	}
	if f, is := content.(file); is {
		w.Header().Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
		reply(w, r, http.StatusOK, f.kind, f.content)
		return
	}
	c.render(w, r, http.StatusOK, p, content)
}

// tell answers with a page that says what is the matter.
func (c *Console) tell(w http.ResponseWriter, r *http.Request, t trouble) {
	p := &page{path: troublePath, title: t.Title}
	if t.page != nil {
		p.active, p.live = t.page.path, t.page.live
	}
	c.render(w, r, t.Code, p, t)
}

// Refuse answers that a request can't be read.
func (c *Console) Refuse(w http.ResponseWriter, r *http.Request, why error) {
	protect(w.Header())
	c.tell(w, r, trouble{Code: http.StatusBadRequest, Title: "This address can't be read", Text: why.Error()})
}

func (c *Console) render(w http.ResponseWriter, r *http.Request, code int, p *page, content any) {
	var b bytes.Buffer
	if err := c.templates[p.path].ExecuteTemplate(&b, "layout", c.frame(p, r.URL, content)); err != nil {
		klog.FromContext(r.Context()).Error(err, "A page of the console met a bug", "page", p.path)
		http.Error(w, "the page met a bug, which the server's log tells of", http.StatusInternalServerError)
		return
	}
	reply(w, r, code, "text/html; charset=utf-8", b.Bytes())
}
