package selector

import (
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/scorer/devices"
)

// billionths is the decimal scale of amounts.
const billionths = 9

// Amount is a quantity as an amount.
func Amount(q resource.Quantity) devices.Amount {
	format := formatOf(q.Format)
	if n, ok := q.AsInt64(); ok {
		return devices.Units(n, format)
	}
	q = q.DeepCopy()
	dec := q.AsDec()
	n, scale := dec.UnscaledBig(), int(dec.Scale())
	if len(n.Bits())*64-scale*3 > 1000 {
		return clamped(n.Sign(), format) // far beyond the largest, and long to write out
	}
	ten := big.NewInt(10)
	if scale <= billionths {
		n = new(big.Int).Mul(n, ten.Exp(ten, big.NewInt(int64(billionths-scale)), nil))
	} else {
		n = new(big.Int).Quo(n, ten.Exp(ten, big.NewInt(int64(scale-billionths)), nil))
	}
	largest := devices.MaxAmount(format)
	if n.CmpAbs(wide(largest)) > 0 {
		return clamped(n.Sign(), format)
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1))
	return devices.Amount{High: new(big.Int).Rsh(n, 64).Int64(), Low: low.Uint64(), Format: format}
}

func clamped(sign int, format devices.Format) devices.Amount {
	if sign < 0 {
		return devices.Amount{Format: format}.Minus(devices.MaxAmount(format))
	}
	return devices.MaxAmount(format)
}

// wide is an amount as a number of billionths.
func wide(a devices.Amount) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(a.High), 64)
	return n.Add(n, new(big.Int).SetUint64(a.Low))
}

// Quantity is an amount as a quantity, as if it had been read from its own text: CEL's isInteger depends on how a
// quantity was read.
func Quantity(a devices.Amount) resource.Quantity {
	q := resource.Quantity{Format: formats[a.Format]}
	q.AsDec().SetUnscaledBig(wide(a)).SetScale(billionths)
	read, err := resource.ParseQuantity(q.String())
	if err != nil {
		panic(err) // what a quantity writes, it reads
	}
	return read
}

var formats = [...]resource.Format{
	devices.DecimalSI: resource.DecimalSI, devices.BinarySI: resource.BinarySI, devices.DecimalExponent: resource.DecimalExponent,
}

func formatOf(f resource.Format) devices.Format {
	for i := range formats {
		if formats[i] == f {
			return devices.Format(i)
		}
	}
	return devices.DecimalSI
}
