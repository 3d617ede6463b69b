// Package nodemap reads the map of nodes that the client API answers with: which group each cell belongs to, and what it tells.
//
//	groups   zone-a, 3 nodes          zone-b, 2 nodes
//	cells    120   870   32769        32768   500            two bytes each
//	tells    12 %  87 %  class 1      class 0 50 %           of a scale from 0 to 100 %
package nodemap
