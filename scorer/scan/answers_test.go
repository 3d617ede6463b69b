package scan

import "testing"

func TestAnswersComeInAnyNumber(t *testing.T) {
	var pool Answers
	for _, n := range []int{3, 0, 5, 2, 7, 7} {
		list := pool.Take(n)
		if len(list) != n {
			t.Errorf("got %d answers, want %d", len(list), n)
		}
		pool.Put(list)
	}
}
