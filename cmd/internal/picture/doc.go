// Package picture draws where gangs are as an SVG: each node a block of squares, one for each member that it takes or has room for, in
// the frame of its domain.
//
//	┌ rack r1 ─────────┐
//	│ AAAA AAAB ····   │   A, B  members of a gang, as the legend names them
//	│ ▒▒▒▒ ▒▒▒· ····   │   ▒     taken by other pods      ·  free
//	└──────────────────┘
//
// The same picture has the same bytes. What is too much to be seen is left out, and the picture says so.
package picture
