package expression

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxSteps is how large a regular expression may be once its repeats are written out: a{3} is
	// three steps. What it costs to make ready and to walk goes by that, not by its text.
	maxSteps = 2000
	// keptPatterns is how many are kept.
	keptPatterns = 64
)

// pattern is a regular expression, made ready; or what is wrong with it.
type pattern struct {
	ready *regexp.Regexp
	steps uint64
	err   error
}

// patterns are those that were made ready last.
var patterns struct {
	sync.RWMutex
	kept map[string]*pattern
}

// patternOf makes a regular expression ready, or finds it.
func patternOf(text string) *pattern {
	patterns.RLock()
	p := patterns.kept[text]
	patterns.RUnlock()
	if p != nil {
		return p
	}
	p = newPattern(text)
	patterns.Lock()
	defer patterns.Unlock()
	if patterns.kept == nil || len(patterns.kept) >= keptPatterns {
		patterns.kept = map[string]*pattern{}
	}
	patterns.kept[text] = p
	return p
}

func newPattern(text string) *pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &pattern{err: err}
	}
	p := &pattern{steps: stepsOf(tree)}
	if p.steps > maxSteps {
		p.err = fmt.Errorf("regular expression: expected at most %d steps with its repeats written out, got %d", maxSteps, p.steps)
		return p
	}
	p.ready, p.err = regexp.Compile(text)
	return p
}

// stepsOf is how large a regular expression is with its repeats written out.
func stepsOf(r *syntax.Regexp) uint64 {
	if r.Op == syntax.OpLiteral {
		return uint64(len(r.Rune))
	}
	if len(r.Sub) == 0 {
		return 1
	}
	sum := uint64(0)
	for _, sub := range r.Sub {
		sum += stepsOf(sub)
	}
	switch {
	case r.Op == syntax.OpRepeat && r.Max < 0:
		return product(sum, uint64(r.Min)+1)
	case r.Op == syntax.OpRepeat:
		return product(sum, uint64(r.Max))
	}
	return sum
}

// patternCost is what a match of a text with a regular expression costs.
func patternCost(args []ref.Val) uint64 {
	if len(args) < 2 {
		return 0
	}
	text, ok := args[1].(types.String)
	if !ok {
		return 0
	}
	return product(1+walked(args[0]), 1+patternOf(string(text)).steps/4)
}

// matches is the language's function for patterns that are not constant.
func matches(args ...ref.Val) ref.Val {
	s, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	return matching(args[1], func(r *regexp.Regexp) ref.Val { return types.Bool(r.MatchString(string(s))) })
}

func matching(text ref.Val, f func(*regexp.Regexp) ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(text)
	}
	p := patternOf(string(s))
	if p.err != nil {
		return types.NewErr("illegal regex: %v", p.err)
	}
	return f(p.ready)
}
