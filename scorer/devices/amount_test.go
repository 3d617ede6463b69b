package devices

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (a Amount) big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(a.High), 64)
	return n.Add(n, new(big.Int).SetUint64(a.Low))
}

// amounts draws amounts of every size up to the largest, below zero too.
func amounts() *rapid.Generator[Amount] {
	return rapid.Custom(func(t *rapid.T) Amount {
		a := Amount{High: rapid.Int64Range(0, maxHigh-1).Draw(t, "high"), Low: rapid.Uint64().Draw(t, "low")}
		switch rapid.IntRange(0, 3).Draw(t, "size") {
		case 0:
			a.High = 0
		case 1:
			a = Units(rapid.Int64().Draw(t, "units"), BinarySI)
		case 2:
			a = a.negative()
		}
		return a
	})
}

func TestAmountsCountAsWholeNumbersDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := amounts().Draw(t, "a"), amounts().Draw(t, "b")
		if got, want := a.Compare(b), a.big().Cmp(b.big()); got != want {
			t.Fatalf("Compare: got %d, want %d", got, want)
		}
		if got, want := a.Plus(b).big(), new(big.Int).Add(a.big(), b.big()); got.Cmp(want) != 0 {
			t.Fatalf("Plus: got %s, want %s", got, want)
		}
		if got, want := a.Minus(b).big(), new(big.Int).Sub(a.big(), b.big()); got.Cmp(want) != 0 {
			t.Fatalf("Minus: got %s, want %s", got, want)
		}
	})
}

func TestUnitsRoundUpToThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "n")
		a := Units(n, DecimalSI)
		if got := a.Ceil(); got != n {
			t.Fatalf("%d: got %d", n, got)
		}
		if got := a.Minus(Amount{Low: 1}).Ceil(); got != n {
			t.Fatalf("%d less a billionth: got %d, want %d", n, got, n)
		}
		if got := a.Plus(Amount{Low: 1}).Ceil(); got != n+1 {
			t.Fatalf("%d and a billionth: got %d, want %d", n, got, n+1)
		}
	})
}

func TestManyLargestAmountsAddUp(t *testing.T) {
	sum, largest := Amount{}, MaxAmount(DecimalSI)
	for range 1 << 26 {
		sum = sum.Plus(largest)
	}
	if want := new(big.Int).Lsh(largest.big(), 26); sum.big().Cmp(want) != 0 {
		t.Errorf("got %s, want %s", sum.big(), want)
	}
}
