package expression

import "sync"

// keptTemplates is how many expressions are kept: more than profiles have.
const keptTemplates = 256

// Templates keeps what Compile made. The zero value is ready, a nil one keeps nothing. It is
// safe for concurrent use.
type Templates struct {
	mu   sync.Mutex
	kept map[templateKey]*Template
}

type templateKey struct {
	text string
	kind Kind
}

// Compile is Compile for an expression that may have been compiled before.
func (t *Templates) Compile(text string, kind Kind) (*Template, error) {
	if t == nil {
		return Compile(text, kind)
	}
	key := templateKey{text, kind}
	t.mu.Lock()
	made := t.kept[key]
	t.mu.Unlock()
	if made != nil {
		return made, nil
	}
	made, err := Compile(text, kind)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= keptTemplates {
		t.kept = map[templateKey]*Template{}
	}
	t.kept[key] = made
	return made, nil
}
