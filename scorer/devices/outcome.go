package devices

import "strings"

// Verdict is what a search comes to.
type Verdict uint8

const (
	// None: the node has no devices for the claims ("cannot allocate all claims").
	None Verdict = iota
	Allocated
	// InvalidPools: none, and some pool of the node is invalid ("invalid resource pools were encountered").
	InvalidPools
	// Fatal: the pod's cycle ends with an error.
	Fatal
)

// Outcome is the result of a search. What it points to is good until the next search of the same Searcher.
type Outcome struct {
	Verdict Verdict
	// Text is that of a fatal outcome.
	Text Text
	// Exhausted says that the search is fatal because it took more steps than its budget.
	Exhausted bool
	// Claims has one entry for each claim of the demand, where all are allocated.
	Claims []Allocation
	// Steps are those that the search took.
	Steps int64
}

// Allocation is what one claim gets.
type Allocation struct {
	// Results are in the order of search.
	Results []Result
	// Chosen is the alternative of each request.
	Chosen []int32
}

// Result is one device for one request.
type Result struct {
	Request, Alternative int32
	// Device is the device's number in the Pools.
	Device int32
	Admin  bool
	// Share says that the device allows multiple allocations: the result needs a share id.
	Share bool
	// Consumed are all capacities of a shared device, by name, with what this share takes of them.
	Consumed []Counter
}

// Text is a message with places for the names of a claim and a pool.
type Text struct {
	// Claim is the claim's index in the demand, or -1; Pool the pool's in the Pools, or -1.
	Claim, Pool int32
	// BareClaim says that the claim's name stands without its namespace.
	BareClaim bool
	// Parts are the text before the claim, between claim and pool, and after both.
	Parts [3]string
}

// In writes the text with names. claim gives a claim's namespace and name, pool a pool's driver and name.
func (t Text) In(claim, pool func(int32) (string, string)) string {
	var b strings.Builder
	b.WriteString(t.Parts[0])
	if t.Claim >= 0 {
		namespace, name := claim(t.Claim)
		if !t.BareClaim && namespace != "" {
			b.WriteString(namespace)
			b.WriteByte('/')
		}
		b.WriteString(name)
	}
	b.WriteString(t.Parts[1])
	if t.Pool >= 0 {
		driver, name := pool(t.Pool)
		b.WriteString(driver)
		b.WriteByte('/')
		b.WriteString(name)
	}
	b.WriteString(t.Parts[2])
	return b.String()
}

func plain(text string) Text { return Text{Claim: -1, Pool: -1, Parts: [3]string{text}} }
