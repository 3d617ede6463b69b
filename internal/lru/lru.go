package lru

import "github.com/hashicorp/golang-lru/v2/simplelru"

// EntryBytes is counted for an entry beside its value: the key, the list and the index.
const EntryBytes = 256

// Cache is for one goroutine at a time.
type Cache[K comparable, V any] struct {
	held          *simplelru.LRU[K, *entry[V]]
	budget, bytes int64
	periods       uint64 // that Age has begun
}

type entry[V any] struct {
	value V
	bytes int64
	used  uint64 // the last period of use
}

// New makes a cache of so many entries and bytes, both above zero. gone is told of each value that is kept
// no longer; nil: nobody is.
func New[K comparable, V any](entries int, budget int64, gone func(K, V)) *Cache[K, V] {
	c := &Cache[K, V]{budget: budget}
	held, err := simplelru.NewLRU(entries, func(key K, e *entry[V]) {
		c.bytes -= e.bytes
		if gone != nil {
			gone(key, e.value)
		}
	})
	if err != nil {
		panic(err) // the number is ours and above zero
	}
	c.held = held
	return c
}

// Get is the value of a key, which is used thereby.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	e, ok := c.held.Get(key)
	if !ok {
		return *new(V), false
	}
	e.used = c.periods
	return e.value, true
}

// Peek is Get that uses nothing.
func (c *Cache[K, V]) Peek(key K) (V, bool) {
	e, ok := c.held.Peek(key)
	if !ok {
		return *new(V), false
	}
	return e.value, true
}

// Add keeps a value of about so many bytes in the place of what the key had, and tells how many
// entries made room for it. A value that is larger than the budget is not kept.
func (c *Cache[K, V]) Add(key K, value V, bytes int64) (evicted int) {
	c.held.Remove(key)
	if bytes += EntryBytes; bytes > c.budget {
		return 0
	}
	c.bytes += bytes
	if c.held.Add(key, &entry[V]{value, bytes, c.periods}) {
		evicted++
	}
	for ; c.bytes > c.budget; evicted++ {
		c.held.RemoveOldest()
	}
	return evicted
}

// Age begins another period, and drops values that were not used in the last periods before it, the oldest first: no
// more than most of them, so that a call takes not long.
func (c *Cache[K, V]) Age(periods uint64, most int) {
	c.periods++
	for range most {
		if _, e, ok := c.held.GetOldest(); !ok || e.used+periods >= c.periods {
			return
		}
		c.held.RemoveOldest()
	}
}

// Remove forgets a key.
func (c *Cache[K, V]) Remove(key K) { c.held.Remove(key) }

// Len is how many entries there are.
func (c *Cache[K, V]) Len() int { return c.held.Len() }

// Bytes is what they take, as far as it was told.
func (c *Cache[K, V]) Bytes() int64 { return c.bytes }
