// Package plainjson writes protobuf messages as JSON that scripts can use as it
// is: numbers are numbers (protobuf's own JSON writes 64-bit integers as strings),
// durations are seconds under a name that ends in Seconds, timestamps RFC 3339,
// and every field is there, absent messages as null. Names are the lowerCamelCase
// ones of the proto files, which change only by addition, in the order of the field
// numbers.
package plainjson
