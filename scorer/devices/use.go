package devices

// Use is which devices of some Pools are in use by allocated claims, by number. The zero Use is none.
type Use struct {
	whole, shared, holds []uint64
	// held is what shares hold of a device's capacities, by number; a device may hold shares and none of its capacities.
	held map[int32][]Counter
}

// Take marks a device as allocated as a whole.
func (u *Use) Take(number int32) { u.whole = set(u.whole, number) }

// Share marks a device as allocated by some share.
func (u *Use) Share(number int32) { u.shared = set(u.shared, number) }

// Hold says what all shares of a device hold of its capacities, in sum. It may be none.
func (u *Use) Hold(number int32, capacities []Counter) {
	if u.held == nil {
		u.held = map[int32][]Counter{}
	}
	u.holds = set(u.holds, number)
	u.held[number] = capacities
}

func set(bits []uint64, i int32) []uint64 {
	for len(bits) <= int(i>>6) {
		bits = append(bits, 0)
	}
	bits[i>>6] |= 1 << (i & 63)
	return bits
}

func has(bits []uint64, i int32) bool { return int(i>>6) < len(bits) && bits[i>>6]>>(i&63)&1 != 0 }

// allocated tells whether a device has any allocation: then its counters are consumed.
func (u *Use) allocated(number int32) bool {
	return has(u.whole, number) || has(u.shared, number) || has(u.holds, number)
}
