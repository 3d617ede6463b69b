// Package selector judges devices by CEL expressions, those of device classes and requests, with Kubernetes' own
// library: k8s.io/dynamic-resource-allocation/cel. It also turns Kubernetes' quantities into amounts and back. Both keep
// Kubernetes' types out of the search in scorer/devices.
//
// An expression is compiled when it is used, or beside (Ready): a long one takes 100 ms. A compiled expression is kept while it
// is one of the last MaxExpressions used, and its judgements while there are no more than MaxJudgements. An expression that only
// looks up attributes by constant names, such as
//
//	device.attributes["gpu.example.com"].model == "a100" && device.driver == "gpu.example.com"
//
// is evaluated once for each distinct value of these attributes, whatever else tells devices apart.
package selector
