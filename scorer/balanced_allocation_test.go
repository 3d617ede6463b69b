package scorer

import "testing"

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name          string
		with, without []float64
		want          int64
	}{
		{"nothing to compare", nil, nil, 75},
		{"one resource is even with itself", []float64{1}, []float64{0.2}, 75},
		{"the pod changes nothing", []float64{0.5, 0.5}, []float64{0.1, 0.1}, 75},
		{"as uneven as can be, from even", []float64{1, 0}, []float64{0, 0}, 50},
		{"even, from as uneven as can be", []float64{1, 1}, []float64{1, 0}, 100},
		// Deviations .4714 and 0 of three shares: 50+(50+52-100)/2.
		{"three resources", []float64{1, 0, 0}, []float64{0, 0, 0}, 51},
		// |.72-.04|/2 is just what 66 needs; by way of the mean it would come out as 65, and 57.
		{"two resources have a formula of their own", []float64{0.72, 0.04}, []float64{0, 0}, 58},
		// A negative difference is cut toward zero before 50 is added: 50+(50+75-76)/2.
		{"odd difference", []float64{0.5, 0}, []float64{0.48, 0}, 74},
	} {
		if got := balanceScore(deviation(c.with), deviation(c.without)); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestShareIsAtMostOne(t *testing.T) {
	if got := share(3, 2); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	if got := share(1, 2); got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
}
