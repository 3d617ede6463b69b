package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// split cuts a source into documents that hold something.
func split(s source) ([]*document, error) {
	if first := firstByte(s.text); first == '{' || first == '[' {
		documents, err := splitJSON(s)
		if err == nil || strings.EqualFold(filepath.Ext(s.name), ".json") {
			return documents, err
		}
		// YAML's flow style looks like JSON from afar.
	}
	return splitYAML(s), nil
}

func firstByte(text []byte) byte {
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) > 0 {
		return t[0]
	}
	return 0
}

// splitYAML cuts at lines that begin with "---". Inside a document such a line
// can't stand: the content of a block scalar is indented.
func splitYAML(s source) []*document {
	var documents []*document
	start, startLine, line := 0, 1, 1
	add := func(end int) {
		text, skipped := trimBlank(s.text[start:end])
		if len(text) > 0 {
			documents = append(documents, &document{file: s.name, line: startLine + skipped, text: text})
		}
	}
	for at := 0; at < len(s.text); line++ {
		next := len(s.text)
		if i := bytes.IndexByte(s.text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if rest, ok := separator(s.text[at:next]); ok {
			add(at)
			start, startLine = at+len("---"), line
			if len(rest) == 0 {
				start, startLine = next, line+1
			}
		}
		at = next
	}
	add(len(s.text))
	return documents
}

// separator tells whether a line ends a document, and what follows on it.
func separator(line []byte) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || len(rest) > 0 && !bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])) {
		return nil, false
	}
	rest = bytes.TrimSpace(rest)
	if len(rest) > 0 && rest[0] == '#' {
		rest = nil
	}
	return rest, true
}

// trimBlank drops lines before the first that says something: comments, empty
// ones, directives. It returns how many.
func trimBlank(text []byte) (rest []byte, lines int) {
	for len(text) > 0 {
		line, after, found := bytes.Cut(text, []byte("\n"))
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' && t[0] != '%' && !bytes.Equal(t, []byte("...")) {
			return text, lines
		}
		if !found {
			break
		}
		text = after
		lines++
	}
	return nil, lines
}

// splitJSON reads JSON values one after the other, as `kubectl get -o json`
// prints them. Arrays, and the items of a list at the top, become documents of
// their own: each then knows its line, and none needs the whole.
func splitJSON(s source) ([]*document, error) {
	j := &jsonReader{source: s, decoder: json.NewDecoder(bytes.NewReader(s.text)), line: 1}
	for {
		err := j.value()
		if err == errNoMore {
			return j.documents, nil
		}
		if err != nil {
			return nil, j.syntax(err)
		}
	}
}

var errNoMore = errors.New("no more values")

type jsonReader struct {
	source    source
	decoder   *json.Decoder
	documents []*document
	counted   int // offset up to which lines are counted
	line      int // line of that offset
}

// value reads one value at the top of the source.
func (j *jsonReader) value() error {
	at := j.next()
	if at == len(j.source.text) {
		return errNoMore
	}
	switch j.source.text[at] {
	case '[':
		items, err := j.array()
		j.documents = append(j.documents, items...)
		return err
	case '{':
		return j.object(at)
	}
	return fmt.Errorf("%q begins neither an object nor an array", j.source.text[at])
}

// object reads an object at the top; a list gives its items.
func (j *jsonReader) object(at int) error {
	whole := &document{file: j.source.name, line: j.lineAt(at), json: true}
	if _, err := j.decoder.Token(); err != nil {
		return err
	}
	var items []*document
	var list listType
	seen := false
	for j.decoder.More() {
		key, err := j.decoder.Token()
		if err != nil {
			return err
		}
		if key == "items" && j.nextIs('[') {
			seen = true
			if items, err = j.array(); err != nil {
				return err
			}
			continue
		}
		var raw json.RawMessage
		if err := j.decoder.Decode(&raw); err != nil {
			return err
		}
		list.note(key, raw)
	}
	if _, err := j.decoder.Token(); err != nil {
		return err
	}
	if !seen || !list.isList() {
		whole.text = j.source.text[at:j.decoder.InputOffset()]
		items = []*document{whole}
		list = listType{}
	}
	for _, d := range items {
		d.list = list
	}
	j.documents = append(j.documents, items...)
	return nil
}

// array reads an array; each element is a document.
func (j *jsonReader) array() ([]*document, error) {
	if _, err := j.decoder.Token(); err != nil {
		return nil, err
	}
	var items []*document
	for j.decoder.More() {
		at := j.next()
		d := &document{file: j.source.name, line: j.lineAt(at), json: true}
		var raw json.RawMessage
		if err := j.decoder.Decode(&raw); err != nil {
			return nil, err
		}
		d.text = j.source.text[at:j.decoder.InputOffset()]
		items = append(items, d)
	}
	_, err := j.decoder.Token()
	return items, err
}

// next is the offset of what follows, past space and punctuation.
func (j *jsonReader) next() int {
	at := int(j.decoder.InputOffset())
	for at < len(j.source.text) && bytes.IndexByte([]byte(" \t\r\n,:"), j.source.text[at]) >= 0 {
		at++
	}
	return at
}

func (j *jsonReader) nextIs(b byte) bool {
	at := j.next()
	return at < len(j.source.text) && j.source.text[at] == b
}

// lineAt counts on from the last offset that was asked for.
func (j *jsonReader) lineAt(offset int) int {
	j.line += bytes.Count(j.source.text[j.counted:offset], []byte("\n"))
	j.counted = offset
	return j.line
}

func (j *jsonReader) syntax(err error) error {
	at := int(j.decoder.InputOffset())
	if se := (*json.SyntaxError)(nil); errors.As(err, &se) {
		at = int(se.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, err = len(j.source.text), errors.New("the JSON ends too early")
	}
	line := 1 + bytes.Count(j.source.text[:min(at, len(j.source.text))], []byte("\n"))
	return &Error{Position: Position{File: j.source.name, Line: line}, Problem: err.Error()}
}
