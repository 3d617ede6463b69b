package objects

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dra "k8s.io/dynamic-resource-allocation/cel"
)

// deviceClass checks what a class stands for.
func (c *checker) deviceClass(s *resourcev1.DeviceClassSpec, p *field.Path) {
	c.deviceSelectors(p.Child("selectors"), s.Selectors)
	c.compile(p.Child("selectors"), s.Selectors)
	if config := p.Child("config"); c.atMost(config, len(s.Config), resourcev1.DeviceConfigMaxSize) {
		for i := range s.Config {
			c.deviceConfig(config.Index(i), &s.Config[i].DeviceConfiguration)
		}
	}
	if name := s.ExtendedResourceName; name != nil && !isExtendedResource(*name) {
		c.invalid(p.Child("extendedResourceName"), short(*name), "must be a valid extended resource name")
	}
}

// claimTemplate checks what claims are made from.
func (c *checker) claimTemplate(s *resourcev1.ResourceClaimTemplateSpec, p *field.Path) {
	c.labels(p.Child("metadata", "labels"), s.Labels)
	p = p.Child("spec", "devices")
	c.deviceClaim(&s.Spec.Devices, p)
	for i := range s.Spec.Devices.Requests {
		r, p := &s.Spec.Devices.Requests[i], p.Child("requests").Index(i)
		if r.Exactly != nil {
			c.compile(p.Child("exactly", "selectors"), r.Exactly.Selectors)
		}
		for j := range r.FirstAvailable {
			c.compile(p.Child("firstAvailable").Index(j).Child("selectors"), r.FirstAvailable[j].Selectors)
		}
	}
}

// isExtendedResource tells whether a name is one that device plugins could report: with a domain
// that is not Kubernetes', and short enough for a quota.
func isExtendedResource(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, v1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(name, v1.DefaultResourceRequestsPrefix) &&
		len(name) <= validation.DNS1123SubdomainMaxLength+1+validation.LabelValueMaxLength &&
		len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) == 0
}

// deviceClaim checks what a claim asks for.
func (c *checker) deviceClaim(d *resourcev1.DeviceClaim, p *field.Path) {
	named := requestNames{}
	if requests := p.Child("requests"); c.atMost(requests, len(d.Requests), resourcev1.DeviceRequestsMaxSize) {
		seen := map[string]bool{}
		for i := range d.Requests {
			c.deviceRequest(requests.Index(i), &d.Requests[i])
			unique(c, seen, requests.Index(i), short(d.Requests[i].Name))
		}
		named = namesOf(d)
	}
	if constraints := p.Child("constraints"); c.atMost(constraints, len(d.Constraints), resourcev1.DeviceConstraintsMaxSize) {
		for i := range d.Constraints {
			c.constraint(constraints.Index(i), &d.Constraints[i], named)
		}
	}
	if config := p.Child("config"); c.atMost(config, len(d.Config), resourcev1.DeviceConfigMaxSize) {
		for i := range d.Config {
			c.requestRefs(config.Index(i).Child("requests"), d.Config[i].Requests, named)
			c.deviceConfig(config.Index(i), &d.Config[i].DeviceConfiguration)
		}
	}
}

// requestNames are the names by which a claim's requests may be meant: "gpu", and of an alternative "gpu/large".
type requestNames map[string]bool

func namesOf(d *resourcev1.DeviceClaim) requestNames {
	names := requestNames{}
	for i := range d.Requests {
		r := &d.Requests[i]
		names[r.Name] = true
		for j := range r.FirstAvailable {
			names[r.Name+"/"+r.FirstAvailable[j].Name] = true
		}
	}
	return names
}

func (c *checker) requestRefs(p *field.Path, refs []string, named requestNames) {
	if !c.atMost(p, len(refs), resourcev1.DeviceRequestsMaxSize) {
		return
	}
	seen := map[string]bool{}
	for i, ref := range refs {
		c.requestRef(p.Index(i), ref, named)
		unique(c, seen, p.Index(i), short(ref))
	}
}

func (c *checker) requestRef(p *field.Path, ref string, named requestNames) {
	if !named[ref] {
		c.invalid(p, short(ref), "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	}
}

func (c *checker) deviceRequest(p *field.Path, r *resourcev1.DeviceRequest) {
	c.dnsLabel(p.Child("name"), r.Name)
	const exactlyOne = "exactly one of `exactly` or `firstAvailable` is required"
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		c.add(field.Required(p, exactlyOne))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		c.invalid(p, "", exactlyOne+", but multiple fields are set")
	case r.Exactly != nil:
		e := r.Exactly
		c.devices(p.Child("exactly"), e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations, e.Capacity)
	case c.atMost(p.Child("firstAvailable"), len(r.FirstAvailable), resourcev1.FirstAvailableDeviceRequestMaxSize):
		seen := map[string]bool{}
		for i := range r.FirstAvailable {
			s, p := &r.FirstAvailable[i], p.Child("firstAvailable").Index(i)
			c.dnsLabel(p.Child("name"), s.Name)
			c.devices(p, s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, s.Capacity)
			unique(c, seen, p, short(s.Name))
		}
	}
}

// devices checks what requests and their alternatives have in common.
func (c *checker) devices(p *field.Path, class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode,
	count int64, tolerations []resourcev1.DeviceToleration, amounts *resourcev1.CapacityRequirements) {
	c.subdomain(p.Child("deviceClassName"), class)
	c.deviceSelectors(p.Child("selectors"), selectors)
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			c.invalid(p.Child("count"), count, "must not be specified when allocationMode is '%s'", mode)
		}
	case resourcev1.DeviceAllocationModeExactCount:
		c.positive(p.Child("count"), count)
	default:
		oneOf(c, p.Child("allocationMode"), mode, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
	}
	if list := p.Child("tolerations"); c.atMost(list, len(tolerations), resourcev1.DeviceTolerationsMaxLength) {
		for i := range tolerations {
			c.deviceToleration(list.Index(i), &tolerations[i])
		}
	}
	if amounts != nil {
		requests := p.Child("capacity", "requests")
		for _, name := range keysOf(amounts.Requests) {
			c.deviceName(requests, string(name))
		}
	}
}

func (c *checker) deviceSelectors(p *field.Path, selectors []resourcev1.DeviceSelector) {
	if !c.atMost(p, len(selectors), resourcev1.DeviceSelectorsMaxSize) {
		return
	}
	for i := range selectors {
		p := p.Index(i).Child("cel")
		switch s := selectors[i].CEL; {
		case s == nil:
			c.add(field.Required(p, ""))
		case s.Expression == "":
			c.add(field.Required(p.Child("expression"), ""))
		case len(s.Expression) > resourcev1.CELSelectorExpressionMaxLength:
			c.add(field.TooLong(p.Child("expression"), "", resourcev1.CELSelectorExpressionMaxLength))
		}
	}
}

// compile checks that expressions can be evaluated, at a bounded cost. It takes a millisecond each, so that it is done for classes
// and templates, not for each claim.
func (c *checker) compile(p *field.Path, selectors []resourcev1.DeviceSelector) {
	if len(c.errs) > 0 {
		return // something else is wrong, and it may be their number
	}
	for i := range selectors {
		p, text := p.Index(i).Child("cel", "expression"), selectors[i].CEL.Expression
		r := dra.GetCompiler(dra.Features{EnableConsumableCapacity: true}).CompileCELExpression(text, dra.Options{})
		switch {
		case r.Error != nil:
			c.invalid(p, short(text), "%s", r.Error.Detail)
		case r.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
			c.add(field.Forbidden(p, "too complex, exceeds cost limit"))
		}
	}
}

func (c *checker) deviceToleration(p *field.Path, t *resourcev1.DeviceToleration) {
	if t.Key != "" {
		c.qualifiedName(p.Child("key"), t.Key)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			c.invalid(p.Child("value"), short(t.Value), "must be empty for operator `Exists`")
		}
	case resourcev1.DeviceTolerationOpEqual:
		c.labelValue(p.Child("value"), t.Value)
	default:
		oneOf(c, p.Child("operator"), t.Operator, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)
	}
	if t.Effect != "" {
		c.deviceEffect(p.Child("effect"), t.Effect)
	}
}

func (c *checker) constraint(p *field.Path, d *resourcev1.DeviceConstraint, named requestNames) {
	c.requestRefs(p.Child("requests"), d.Requests, named)
	switch {
	case d.MatchAttribute != nil: // and the other one is passed over, as upstream
		c.qualifiedDeviceName(p.Child("matchAttribute"), string(*d.MatchAttribute))
	case d.DistinctAttribute != nil:
		c.qualifiedDeviceName(p.Child("distinctAttribute"), string(*d.DistinctAttribute))
	default:
		c.add(field.Required(p, `exactly one of "matchAttribute" or "distinctAttribute" is required`))
	}
}

func (c *checker) qualifiedDeviceName(p *field.Path, s string) {
	if !strings.Contains(s, "/") {
		c.invalid(p, short(s), "a fully qualified name must be a domain and a name separated by a slash")
		return
	}
	c.deviceName(p, s)
}

// deviceConfig checks what a driver is told of a device: a JSON object.
func (c *checker) deviceConfig(p *field.Path, d *resourcev1.DeviceConfiguration) {
	if d.Opaque == nil {
		c.add(field.Required(p.Child("opaque"), ""))
		return
	}
	c.csiDriverName(p.Child("opaque", "driver"), d.Opaque.Driver)
	c.jsonObject(p.Child("opaque", "parameters"), d.Opaque.Parameters.Raw, resourcev1.OpaqueParametersMaxLength)
}

func (c *checker) jsonObject(p *field.Path, raw []byte, limit int) {
	var object map[string]any
	switch {
	case len(raw) == 0:
		c.add(field.Required(p, ""))
	case len(raw) > limit:
		c.add(field.TooLong(p, "", limit))
	case json.Unmarshal(raw, &object) != nil:
		c.invalid(p, "<value omitted>", "must be a valid JSON object")
	case object == nil:
		c.add(field.Required(p, ""))
	}
}

// claimStatus checks what a claim was given, and who uses it.
func (c *checker) claimStatus(claim *resourcev1.ResourceClaim, p *field.Path) {
	s := &claim.Status
	if list := p.Child("reservedFor"); c.atMost(list, len(s.ReservedFor), resourcev1.ResourceClaimReservedForMaxSize) {
		seen := map[types.UID]bool{}
		for i := range s.ReservedFor {
			r, p := &s.ReservedFor[i], list.Index(i)
			c.present(p.Child("resource"), r.Resource)
			c.present(p.Child("name"), r.Name)
			c.present(p.Child("uid"), string(r.UID))
			unique(c, seen, p, r.UID)
		}
		if len(s.ReservedFor) > 0 && s.Allocation == nil {
			c.add(field.Forbidden(list, "may not be specified when `allocated` is not set"))
		}
	}
	allocated := map[deviceRef]bool{}
	if s.Allocation != nil {
		c.allocation(p.Child("allocation"), s.Allocation, namesOf(&claim.Spec.Devices), allocated)
	}
	seen := map[deviceRef]bool{}
	for i := range s.Devices {
		d, p := &s.Devices[i], p.Child("devices").Index(i)
		ref := deviceRef{d.Driver, d.Pool, d.Device, deref(d.ShareID)}
		if !allocated[ref] {
			c.invalid(p, short(ref.String()), "must be an allocated device in the claim")
		}
		if seen[ref] {
			c.add(field.Duplicate(p, short(ref.String())))
		}
		seen[ref] = true
		c.atMost(p.Child("conditions"), len(d.Conditions), resourcev1.AllocatedDeviceStatusMaxConditions)
		if d.Data != nil && len(d.Data.Raw) > 0 {
			c.jsonObject(p.Child("data"), d.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength)
		}
	}
}

// deviceRef names a device, or one share of it.
type deviceRef struct{ driver, pool, device, share string }

func (r deviceRef) String() string {
	return strings.TrimSuffix(strings.Join([]string{r.driver, r.pool, r.device, r.share}, "/"), "/")
}

func deref[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// allocation checks the devices of a claim, and adds them to those that are allocated.
func (c *checker) allocation(p *field.Path, a *resourcev1.AllocationResult, named requestNames, allocated map[deviceRef]bool) {
	results, config := p.Child("devices", "results"), p.Child("devices", "config")
	if c.atMost(results, len(a.Devices.Results), resourcev1.AllocationResultsMaxSize) {
		for i := range a.Devices.Results {
			r, p := &a.Devices.Results[i], results.Index(i)
			c.requestRef(p.Child("request"), r.Request, named)
			c.csiDriverName(p.Child("driver"), r.Driver)
			c.poolName(p.Child("pool"), r.Pool)
			c.dnsLabel(p.Child("device"), r.Device)
			c.bindingConditions(p, r.BindingConditions, r.BindingFailureConditions)
			allocated[deviceRef{r.Driver, r.Pool, r.Device, deref(r.ShareID)}] = true
		}
	}
	if c.atMost(config, len(a.Devices.Config), 2*resourcev1.DeviceConfigMaxSize) {
		for i := range a.Devices.Config {
			d, p := &a.Devices.Config[i], config.Index(i)
			oneOf(c, p.Child("source"), d.Source, resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
			c.requestRefs(p.Child("requests"), d.Requests, named)
			c.deviceConfig(p, &d.DeviceConfiguration)
		}
	}
	if a.NodeSelector != nil {
		c.nodeSelector(p.Child("nodeSelector"), a.NodeSelector)
	}
}

// podClaims checks the claims that a pod names.
func (c *checker) podClaims(p *field.Path, claims []v1.PodResourceClaim) {
	if len(claims) == 0 {
		return
	}
	names := map[string]bool{}
	for i := range claims {
		r, p := &claims[i], p.Index(i)
		c.dnsLabel(p.Child("name"), r.Name)
		unique(c, names, p.Child("name"), short(r.Name))
		switch claim, template := r.ResourceClaimName, r.ResourceClaimTemplateName; {
		case claim != nil && template != nil:
			c.invalid(p, short(r.Name), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		case claim != nil:
			c.subdomain(p.Child("resourceClaimName"), *claim)
		case template != nil:
			c.subdomain(p.Child("resourceClaimTemplateName"), *template)
		default:
			c.invalid(p, short(r.Name), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
	}
}
