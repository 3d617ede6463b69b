package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed audit.js
var auditScript string

// Audit says what is wrong with the page as it stands, for people who see it in part, hear it, or have no mouse: its language and title,
// headings, tables, drawings, names of what can be used, contrast (WCAG 2.2, AA), and a layout wider than the view.
func (p *Page) Audit() ([]string, error) {
	wrong, err := Eval[[]string](p, auditScript)
	if err != nil {
		return nil, err
	}
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		return nil, err
	}
	for _, n := range tree.Nodes {
		if role := text(n.Role); !n.Ignored && slices.Contains(named, role) && text(n.Name) == "" {
			wrong = append(wrong, "a "+role+" without a name: "+p.describe(n))
		}
	}
	return wrong, nil
}

// named are the roles that have to have a name.
var named = []string{"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton", "switch",
	"tab", "tabpanel", "image", "img", "region", "grid", "table", "dialog", "meter", "progressbar", "navigation", "form", "search"}

func text(v *accessibility.Value) (s string) {
	if v != nil {
		_ = json.Unmarshal(v.Value, &s) // none where it is no text
	}
	return s
}

func (p *Page) describe(n *accessibility.Node) string {
	for _, x := range n.Properties {
		if x.Name == accessibility.PropertyNameURL {
			return text(x.Value)
		}
	}
	return fmt.Sprintf("node %s, %s", n.NodeID, text(n.Description))
}

//go:embed marks.js
var marks string

//go:embed focused.js
var focused string

// Keyboard presses Tab until the focus has been everywhere, and says what it does not reach, and where it is not seen. The focus is left
// at the page's start.
func (p *Page) Keyboard() ([]string, error) {
	all, err := Eval[[]string](p, marks)
	if err != nil {
		return nil, err
	}
	reached := make([]bool, len(all))
	var wrong []string
	for range 2*len(all) + 20 { // elements that a script adds are passed, too
		if err := p.Press(kb.Tab); err != nil {
			return nil, err
		}
		at, err := Eval[struct {
			Number     int
			Body, Seen bool
		}](p, focused)
		if err != nil {
			return nil, err
		}
		if at.Body || at.Number >= 0 && reached[at.Number] {
			break // around
		}
		if at.Number < 0 {
			continue
		}
		reached[at.Number] = true
		if !at.Seen {
			wrong = append(wrong, "the focus is not seen on "+all[at.Number])
		}
	}
	for i, name := range all {
		if !reached[i] {
			wrong = append(wrong, "Tab does not reach "+name)
		}
	}
	_, err = Eval[bool](p, `(document.activeElement?.blur(), scrollTo(0, 0), true)`)
	return wrong, err
}
