package devices

import (
	"maps"
	"math/big"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// perUnit is how many billionths one is. Quantities have no finer part.
const perUnit = 1_000_000_000

var formats = map[resource.Format]pb.QuantityFormat{
	resource.DecimalSI:       pb.QuantityFormat_QUANTITY_FORMAT_DECIMAL_SI,
	resource.BinarySI:        pb.QuantityFormat_QUANTITY_FORMAT_BINARY_SI,
	resource.DecimalExponent: pb.QuantityFormat_QUANTITY_FORMAT_DECIMAL_EXPONENT,
}

// amountList makes a message of quantities, sorted by name.
func amountList[N ~string](list map[N]resource.Quantity) []*pb.DeviceAmount {
	out := make([]*pb.DeviceAmount, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out = append(out, &pb.DeviceAmount{Name: string(name), Quantity: amountOf(&q)})
	}
	return out
}

// amountOf makes a message of a quantity. One beyond 2^100 billionths counts as that.
func amountOf(q *resource.Quantity) *pb.DeviceQuantity {
	out := &pb.DeviceQuantity{Format: formats[q.Format]}
	if n, ok := q.AsInt64(); ok && n >= 0 {
		high, low := bits.Mul64(uint64(n), perUnit)
		out.High, out.Low = int64(high), low
		return out
	}
	d := q.DeepCopy()
	dec := d.AsDec()
	n := new(big.Int).Set(dec.UnscaledBig())
	for scale := dec.Scale(); scale != 9; {
		if scale > 9 { // finer than there is
			n.Quo(n, big.NewInt(10))
			scale--
		} else {
			n.Mul(n, big.NewInt(10))
			scale++
		}
	}
	most := new(big.Int).Lsh(big.NewInt(1), 100)
	if n.CmpAbs(most) > 0 {
		n = most.Mul(most, big.NewInt(int64(n.Sign())))
	}
	out.Low = new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1)).Uint64() // of the two's complement
	out.High = new(big.Int).Rsh(n, 64).Int64()
	return out
}

// optionalAmount is amountOf; nil where there is none.
func optionalAmount(q *resource.Quantity) *pb.DeviceQuantity {
	if q == nil {
		return nil
	}
	return amountOf(q)
}

// quantityOf reads the message of a quantity.
func quantityOf(m *pb.DeviceQuantity) resource.Quantity {
	format := resource.DecimalSI
	for f, its := range formats {
		if its == m.GetFormat() {
			format = f
		}
	}
	n := new(big.Int).Lsh(big.NewInt(m.GetHigh()), 64)
	n.Add(n, new(big.Int).SetUint64(m.GetLow()))
	if whole, rest := new(big.Int).QuoRem(n, big.NewInt(perUnit), new(big.Int)); rest.Sign() == 0 && whole.IsInt64() {
		return *resource.NewQuantity(whole.Int64(), format)
	}
	q := resource.MustParse(n.String() + "n")
	q.Format = format
	return q
}
