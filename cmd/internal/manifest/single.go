package manifest

import "fmt"

// Single is a file that holds one document, such as a configuration.
type Single struct{ object Object }

// Error says what is wrong with a field; empty: with the document.
func (s *Single) Error(field, problem string) *Error {
	e := s.object.Error(field, problem)
	e.Object = ""
	return e
}

// Decode fills into from JSON that stands in the document at path, strictly: what
// a configuration embeds as raw text.
func (s *Single) Decode(path string, raw []byte, into any) error {
	var errs Errors
	problems, _ := decode(raw, into)
	for _, p := range problems {
		errs = append(errs, s.Error(join(path, p.field), p.text))
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// ReadSingle fills into, a pointer to a struct, from the only document of a YAML or
// JSON file, strictly. The version and kind must be as given.
func ReadSingle(path, apiVersion, kind string, into any) (*Single, error) {
	source, err := load(path, Options{MaxBytes: DefaultMaxBytes}, DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	documents, err := split(source)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, &Error{Position: Position{File: path}, Problem: fmt.Sprintf("holds %d documents, expected one %s", len(documents), kind)}
	}
	s := &Single{Object{doc: documents[0]}}
	raw, e := documents[0].toJSON()
	if e != nil {
		return nil, e
	}
	if firstByte(raw) != '{' {
		return nil, s.Error("", "expected an object")
	}
	var h header
	if err := unmarshal(raw, &h); err != nil {
		return nil, s.Error(locate(raw, &h, err), reword(err))
	}
	if h.APIVersion != apiVersion || h.Kind != kind {
		return nil, s.Error("kind", "expected "+kind+" of "+apiVersion+", got "+Clip(h.Kind)+" of "+Clip(h.APIVersion))
	}
	if err := s.Decode("", raw, into); err != nil {
		return nil, err
	}
	return s, nil
}
