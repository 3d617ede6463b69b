package preempt

import "strings"

// Code is how a PostFilter plugin ends.
type Code int

const (
	// Unschedulable lets the next plugin try.
	Unschedulable Code = iota
	// Success ends the chain: the pod has a node nominated, or may be tried again.
	Success
	// Unresolvable ends the chain: nothing helps.
	Unresolvable
	// Error ends the chain.
	Error

	// Codes is how many there are.
	Codes
)

// String is upstream's name of the code.
func (c Code) String() string {
	return [Codes]string{"Unschedulable", "Success", "UnschedulableAndUnresolvable", "Error"}[c]
}

// Verdict is what a PostFilter plugin says.
type Verdict struct {
	Code       Code
	Text       string      // "" with Success
	Nominating *Nominating // nil: it leaves the nominated node alone
}

// Run asks the PostFilter plugins in their order (upstream's RunPostFilterPlugins): until one
// succeeds, says that nothing helps, or fails. Of those that go on, all texts are told, and the
// last nomination holds.
func Run(plugins []string, ask func(plugin string) Verdict) Verdict {
	var all Verdict
	var texts []string
	for _, name := range plugins {
		v := ask(name)
		switch v.Code {
		case Success:
			return Verdict{Code: Success, Nominating: v.Nominating}
		case Unresolvable:
			return v
		case Error:
			v.Nominating = nil
			return v
		}
		if v.Text != "" {
			texts = append(texts, v.Text)
		}
		if v.Nominating != nil {
			all.Nominating = v.Nominating
		}
	}
	all.Text = strings.Join(texts, ", ")
	return all
}

// The texts of DynamicResources' PostFilter. There are no claims to take back, so it has nothing
// to add but that; where an earlier PreFilter plugin ended the attempt its own has not run, and it
// fails for want of its state.
const (
	noClaims     = "no new claims to deallocate"
	stateMissing = "not found"
)

// Claims is the verdict of DynamicResources. ran tells whether its PreFilter has run, and refused whether that
// has turned the pod away, for its claims: no victim helps then.
func Claims(ran, refused bool) Verdict {
	if refused {
		return Verdict{Code: Unresolvable}
	}
	if !ran {
		return Verdict{Code: Error, Text: stateMissing}
	}
	return Verdict{Text: noClaims}
}
