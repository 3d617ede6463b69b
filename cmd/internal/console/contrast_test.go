package console

import (
	"math"
	"strconv"
)

// luminance is that of a colour, RRGGBB, as WCAG 2 defines it.
func luminance(hex string) float64 {
	n, _ := strconv.ParseUint(hex, 16, 32)
	linear := func(c uint64) float64 {
		x := float64(c&255) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}
