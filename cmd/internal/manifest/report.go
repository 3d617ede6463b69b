package manifest

// Report gathers what is wrong with an input, over all stages of using it.
type Report struct {
	// SkipInvalid makes errors warnings: what they are about is left out.
	SkipInvalid bool
	// Warn is told what is odd but usable, and with SkipInvalid what is left out.
	Warn func(error)

	errs    Errors
	skipped int
}

// Add notes that what e is about can't be used.
func (r *Report) Add(e *Error) {
	if !r.SkipInvalid {
		r.errs = append(r.errs, e)
		return
	}
	r.skipped++
	skipped := *e
	skipped.Problem += "; skipped"
	r.Note(&skipped)
}

// Note passes on what is odd, and usable.
func (r *Report) Note(e *Error) {
	if r.Warn != nil {
		r.Warn(e)
	}
}

// Skipped is the number of things left out.
func (r *Report) Skipped() int { return r.skipped }

// Err is all that was added; nil where nothing was, or where it is skipped.
func (r *Report) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	return r.errs
}
