package console

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

//go:embed templates/*.html
var templateFiles embed.FS

// page is one page of the console.
type page struct {
	// path is its one segment below Path; empty: the first page. Its template is templates/PATH.html (overview.html of the first), which
	// defines "main".
	path string
	// title heads it, and names it in the menu.
	title string
	// hidden keeps it out of the menu: it is led to by links. active is then the path of the menu's page that it belongs to.
	hidden bool
	active string
	// live has it fetched again every two seconds while it is visible.
	live bool
	// scripts and styles are the assets that it needs beside those of all pages.
	scripts, styles []string
	// maxBody is the size of the body that a POST may have, in bytes; 0: the page is only read.
	maxBody int64
	// show asks what the template is given, or answers with a file. An error that is a gRPC status is told as what it is.
	show func(*visit) (any, error)
}

// file is an answer that is no page.
type file struct {
	name, kind string
	content    []byte
}

// visit is one request for a page.
type visit struct {
	context.Context
	client  pb.SchedulerServiceClient // shared with other viewers
	query   url.Values
	request *http.Request
	config  Config
	now     time.Time
}

// get is a parameter of the query, without space around it.
func (v *visit) get(name string) string { return strings.TrimSpace(v.query.Get(name)) }

// command is the command line that shows what a page does, such as command("get", "workers").
func (v *visit) command(words ...string) string {
	line := []string{v.config.Command}
	for _, w := range words {
		line = append(line, Quoted(w))
	}
	if v.config.Flags != "" {
		line = append(line, v.config.Flags)
	}
	return strings.Join(line, " ")
}

// Quoted is a word as a shell reads it.
func Quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// link is the address of a page with parameters: link("pod", "namespace", "shop", "name", "web-0"). Empty values are left out.
func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		if path == "" {
			return "./"
		}
		return path
	}
	return path + "?" + q.Encode()
}

// download is the address of an RPC's answer as a file.
func download(rpc string, pairs ...string) string {
	return link(apiPath+rpc, append(pairs, "download", "1")...)
}

// frame is what the layout is given.
type frame struct {
	Title, Source, Version string
	Menu                   []menuItem
	Live                   bool
	Scripts, Styles        []string
	At                     time.Time
	Timeline               *timeline // nil: there is none
	Content                any
}

type menuItem struct {
	Title, Link string
	Here        bool
}

func (c *Console) frame(p *page, at *url.URL, content any) frame {
	f := frame{Title: p.title, Source: c.config.Source, Version: c.config.Version, Live: p.live && c.config.Source == "",
		Scripts: p.scripts, Styles: p.styles, At: c.now(), Content: content}
	if f.Timeline = c.timelineOf(at); f.Timeline != nil {
		f.Scripts = append(f.Scripts[:len(f.Scripts):len(f.Scripts)], "timeline.js")
	}
	for _, other := range c.pages {
		if !other.hidden {
			here := other.path == p.path || (p.hidden || p.path == troublePath) && other.path == p.active
			f.Menu = append(f.Menu, menuItem{Title: other.title, Link: link(other.path), Here: here})
		}
	}
	return f
}

// parse reads each page's template, beside the layout and what pages have in common.
func (c *Console) parse() (map[string]*template.Template, error) {
	common, err := template.New("").Funcs(template.FuncMap{
		"asset": c.assets.url,
		"clock": func(t time.Time) string { return t.Format("15:04:05") },
		"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/timeline.html")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, p := range append(c.pages, page{path: troublePath}) {
		name := p.path
		if name == "" {
			name = "overview"
		}
		own, err := common.Clone()
		if err != nil {
			return nil, err
		}
		if all[p.path], err = own.ParseFS(templateFiles, "templates/"+name+".html"); err != nil {
			return nil, fmt.Errorf("page %q: %w", p.path, err)
		}
	}
	return all, nil
}
