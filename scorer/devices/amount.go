package devices

import "math/bits"

// Amount is a quantity of Kubernetes: a number of billionths, as 128 bits, and the format it is written in.
//
// Quantities have no finer part than a billionth, and none is larger than MaxAmount here, 2^100 billionths. So sums of
// 2^26 of them are exact.
type Amount struct {
	High   int64
	Low    uint64
	Format Format
}

// Format is how an amount is written.
type Format uint8

const (
	DecimalSI Format = iota
	BinarySI
	DecimalExponent
)

// maxHigh is the high half of the largest amount.
const maxHigh = 1 << 36

// MaxAmount is the largest amount: about 1.2e21. The largest quantity in binary format is 2^63 = 9.2e18.
//
// Differs from upstream: decimal quantities above MaxAmount count as MaxAmount.
func MaxAmount(format Format) Amount { return Amount{High: maxHigh, Format: format} }

// Units is a whole number.
func Units(n int64, format Format) Amount {
	high, low := bits.Mul64(magnitude(n), perUnit)
	a := Amount{High: int64(high), Low: low, Format: format}
	if n < 0 {
		return a.negative()
	}
	return a
}

// perUnit is how many billionths one is.
const perUnit = 1_000_000_000

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// Compare is below 0 where a is less than b, 0 where both are equal whatever their formats.
func (a Amount) Compare(b Amount) int {
	switch {
	case a.High != b.High:
		if a.High < b.High {
			return -1
		}
		return 1
	case a.Low != b.Low:
		if a.Low < b.Low {
			return -1
		}
		return 1
	}
	return 0
}

// Plus is the sum, in a's format.
func (a Amount) Plus(b Amount) Amount {
	low, carry := bits.Add64(a.Low, b.Low, 0)
	return Amount{High: a.High + b.High + int64(carry), Low: low, Format: a.Format}
}

// Minus is the difference, in a's format.
func (a Amount) Minus(b Amount) Amount {
	low, borrow := bits.Sub64(a.Low, b.Low, 0)
	return Amount{High: a.High - b.High - int64(borrow), Low: low, Format: a.Format}
}

func (a Amount) negative() Amount { return Amount{Format: a.Format}.Minus(a) }

// Ceil is the smallest whole number that is not less; beyond 64 bits, only its last 64 bits.
func (a Amount) Ceil() int64 {
	if a.High < 0 {
		n := a.negative()
		return -int64(n.quotient())
	}
	return int64(a.Plus(Amount{Low: perUnit - 1}).quotient())
}

// quotient is the whole part of an amount that is not negative, its last 64 bits.
func (a Amount) quotient() uint64 {
	low, _ := bits.Div64(uint64(a.High)%perUnit, a.Low, perUnit)
	return low
}
