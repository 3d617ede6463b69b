// Package lru keeps values by last use, up to a number of entries and to a sum of bytes, and for as long as they
// are used. Whatever a pod's text can make large is kept in such a cache, so that pods that come and go leave no
// more than the budget behind, and after a while nothing.
package lru
