package objects_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// decode reads a manifest in JSON, as the API's clients may send it.
func decode(t testing.TB, raw string) objects.Object {
	t.Helper()
	obj, err := objects.Decode([]byte(raw))
	if err != nil {
		t.Fatalf("decode %.200s: %v", raw, err)
	}
	return obj
}

// podWith puts fields into a pod's spec.
func podWith(spec string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]` + comma(spec) + `}}`
}

// containerWith puts fields into a pod's only container.
func containerWith(fields string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"` + comma(fields) + `}]}}`
}

func nodeWith(fields string) string {
	return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}` + comma(fields) + `}`
}

func requests(list string) string { return containerWith(`"resources":{"requests":{` + list + `}}`) }

func affinityWith(fields string) string { return podWith(`"affinity":{` + fields + `}`) }

func requiredNodeAffinity(term string) string {
	return affinityWith(`"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + term + `]}}`)
}

func spreadWith(fields string) string {
	return podWith(`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"` + comma(fields) + `}]`)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return "," + s
}

func TestWhatIsNotValidIsNamedByItsField(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"a pod without name":        {`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c"}]}}`, `metadata.name: Required value`},
		"a bad pod name":            {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"A_b"},"spec":{"containers":[{"name":"c"}]}}`, `metadata.name: Invalid value: "A_b"`},
		"a bad namespace":           {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"a.b"},"spec":{"containers":[{"name":"c"}]}}`, `metadata.namespace: Invalid value: "a.b"`},
		"a node in a namespace":     {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","namespace":"x"}}`, `metadata.namespace: Forbidden: not allowed on this type`},
		"a dotted namespace":        {`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a.b"}}`, `metadata.name: Invalid value: "a.b"`},
		"a bad label key":           {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a b":"c"}}}`, `metadata.labels: Invalid value: "a b"`},
		"a bad label value":         {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a":"b c"}}}`, `metadata.labels[a]: Invalid value: "b c"`},
		"a bad annotation key":      {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","annotations":{"/":"c"}}}`, `metadata.annotations: Invalid value: "/"`},
		"too many annotations":      {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","annotations":{"a":"` + strings.Repeat("x", 300<<10) + `"}}}`, `metadata.annotations: Too long`},
		"a taint without key":       {nodeWith(`"spec":{"taints":[{"effect":"NoSchedule"}]}`), `spec.taints[0].key: Required value`},
		"an unknown taint effect":   {nodeWith(`"spec":{"taints":[{"key":"k","effect":"Never"}]}`), `spec.taints[0].effect: Unsupported value: "Never"`},
		"a taint twice":             {nodeWith(`"spec":{"taints":[{"key":"k","effect":"NoSchedule"},{"key":"k","value":"v","effect":"NoSchedule"}]}`), `spec.taints[1]: Duplicate value: "k:NoSchedule"`},
		"negative allocatable":      {nodeWith(`"status":{"allocatable":{"cpu":"-1"}}`), `status.allocatable[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		"negative capacity":         {nodeWith(`"status":{"capacity":{"memory":"-1Gi"}}`), `status.capacity[memory]: Invalid value: "-1Gi"`},
		"absurd memory":             {nodeWith(`"status":{"allocatable":{"memory":"9Ei"}}`), `status.allocatable[memory]: Invalid value: "9223372036854775807": is absurdly large`},
		"absurd cores":              {nodeWith(`"status":{"allocatable":{"cpu":"10T"}}`), `status.allocatable[cpu]: Invalid value: "10T": is absurdly large`},
		"beyond any integer":        {nodeWith(`"status":{"allocatable":{"memory":"1e300"}}`), `status.allocatable[memory]: Invalid value: "1e300": is absurdly large`},
		"half a GPU":                {nodeWith(`"status":{"allocatable":{"nvidia.com/gpu":"500m"}}`), `status.allocatable[nvidia.com/gpu]: Invalid value: "500m": must be an integer`},
		"half a pod":                {nodeWith(`"status":{"allocatable":{"pods":"0.5"}}`), `status.allocatable[pods]: Invalid value: "500m": must be an integer`},
		"an image of minus bytes":   {nodeWith(`"status":{"images":[{"names":["a"],"sizeBytes":-1}]}`), `status.images[0].sizeBytes: Invalid value: -1`},
		"no container":              {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}`, `spec.containers: Required value`},
		"a container twice":         {podWith(`"initContainers":[{"name":"c"}]`), `spec.containers[0].name: Duplicate value: "c"`},
		"a bad container name":      {podWith(`"initContainers":[{"name":"C"}]`), `spec.initContainers[0].name: Invalid value: "C"`},
		"an unknown restart policy": {containerWith(`"restartPolicy":"Sometimes"`), `spec.containers[0].restartPolicy: Unsupported value: "Sometimes"`},
		"a negative request":        {requests(`"cpu":"-100m"`), `spec.containers[0].resources.requests[cpu]: Invalid value: "-100m"`},
		"a request for half a GPU":  {requests(`"nvidia.com/gpu":"0.5"`), `spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer`},
		"a resource without domain": {requests(`"gpu":"1"`), `spec.containers[0].resources.requests: Invalid value: "gpu"`},
		"a request above its limit": {containerWith(`"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}`), `spec.containers[0].resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1`},
		"negative overhead":         {podWith(`"overhead":{"cpu":"-1"}`), `spec.overhead[cpu]: Invalid value: "-1"`},
		"a pod-level GPU":           {podWith(`"resources":{"requests":{"nvidia.com/gpu":"1"}}`), `spec.resources.requests: Unsupported value: "nvidia.com/gpu"`},
		"pod level above its limit": {podWith(`"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}`), `spec.resources.requests[cpu]: Invalid value: "2"`},
		"host port too high":        {containerWith(`"ports":[{"containerPort":80,"hostPort":65536}]`), `spec.containers[0].ports[0].hostPort: Invalid value: 65536: must be between 1 and 65535`},
		"negative host port":        {containerWith(`"ports":[{"containerPort":80,"hostPort":-1}]`), `spec.containers[0].ports[0].hostPort: Invalid value: -1`},
		"no container port":         {containerWith(`"ports":[{"hostPort":80}]`), `spec.containers[0].ports[0].containerPort: Invalid value: 0`},
		"an unknown protocol":       {containerWith(`"ports":[{"containerPort":80,"protocol":"ICMP"}]`), `spec.containers[0].ports[0].protocol: Unsupported value: "ICMP"`},
		"a host IP that is none":    {containerWith(`"ports":[{"containerPort":80,"hostPort":80,"hostIP":"localhost"}]`), `spec.containers[0].ports[0].hostIP: Invalid value: "localhost"`},
		"a host port twice":         {containerWith(`"ports":[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":80}]`), `spec.containers[0].ports[1].hostPort: Duplicate value: 80`},
		"host network, other port":  {podWith(`"hostNetwork":true,"initContainers":[{"name":"i","ports":[{"containerPort":80,"hostPort":81}]}]`), `spec.initContainers[0].ports[0].hostPort: Invalid value: 81: must match`},
		"a bad node name":           {podWith(`"nodeName":"N 1"`), `spec.nodeName: Invalid value: "N 1"`},
		"a gated pod on a node":     {podWith(`"nodeName":"n1","schedulingGates":[{"name":"wait"}]`), `spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared`},
		"a gate twice":              {podWith(`"schedulingGates":[{"name":"wait"},{"name":"wait"}]`), `spec.schedulingGates[1].name: Duplicate value: "wait"`},
		"a bad scheduler name":      {podWith(`"schedulerName":"Mine!"`), `spec.schedulerName: Invalid value: "Mine!"`},
		"not its class's priority":  {podWith(`"priorityClassName":"system-node-critical","priority":5`), `spec.priority: Invalid value: 5: must be 2000001000`},
		"unknown preemption policy": {podWith(`"preemptionPolicy":"Always"`), `spec.preemptionPolicy: Unsupported value: "Always"`},
		"a bad node selector":       {podWith(`"nodeSelector":{"a":"b c"}`), `spec.nodeSelector[a]: Invalid value: "b c"`},
		"an unknown toleration":     {podWith(`"tolerations":[{"key":"k","operator":"Like"}]`), `spec.tolerations[0].operator: Unsupported value: "Like"`},
		"a toleration without key":  {podWith(`"tolerations":[{"operator":"Equal"}]`), `spec.tolerations[0].operator: Invalid value: "Equal"`},
		"Exists with a value":       {podWith(`"tolerations":[{"key":"k","operator":"Exists","value":"v"}]`), `spec.tolerations[0].value: Invalid value: "v"`},
		"an unknown effect":         {podWith(`"tolerations":[{"key":"k","effect":"Nope"}]`), `spec.tolerations[0].effect: Unsupported value: "Nope"`},
		"seconds without NoExecute": {podWith(`"tolerations":[{"key":"k","tolerationSeconds":5}]`), `spec.tolerations[0].effect: Invalid value: ""`},
		"no node selector term":     {requiredNodeAffinity(``), `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value`},
		"unknown node operator":     {requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"Near"}]}`), `nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near"`},
		"In without values":         {requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"In"}]}`), `matchExpressions[0].values: Required value`},
		"Exists with values":        {requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"Exists","values":["v"]}]}`), `matchExpressions[0].values: Forbidden`},
		"Gt with two values":        {requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"Gt","values":["1","2"]}]}`), `matchExpressions[0].values: Required value: must be specified single value`},
		"an unknown field":          {requiredNodeAffinity(`{"matchFields":[{"key":"spec.x","operator":"In","values":["v"]}]}`), `matchFields[0].key: Unsupported value: "spec.x"`},
		"a field with two values":   {requiredNodeAffinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]}]}`), `matchFields[0].values: Required value`},
		"a preference of weight 0":  {affinityWith(`"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"preference":{}}]}`), `preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100`},
		"no topology key":           {affinityWith(`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{}}]}`), `spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value`},
		"an anti-affinity of 101":   {affinityWith(`"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"podAffinityTerm":{"topologyKey":"zone"}}]}`), `spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101`},
		"unknown selector operator": {affinityWith(`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{"matchExpressions":[{"key":"k","operator":"Gt"}]}}]}`), `labelSelector.matchExpressions[0].operator: Unsupported value: "Gt"`},
		"a bad affinity namespace":  {affinityWith(`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","namespaces":["A"]}]}`), `namespaces[0]: Invalid value: "A"`},
		"a skew of 0":               {podWith(`"topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`), `spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0`},
		"unknown whenUnsatisfiable": {podWith(`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"Maybe"}]`), `spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe"`},
		"minDomains of 0":           {spreadWith(`"minDomains":0`), `spec.topologySpreadConstraints[0].minDomains: Invalid value: 0`},
		"unknown inclusion policy":  {spreadWith(`"nodeTaintsPolicy":"Count"`), `spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Count"`},
		"a volume twice":            {podWith(`"volumes":[{"name":"v","emptyDir":{}},{"name":"v","emptyDir":{}}]`), `spec.volumes[1].name: Duplicate value: "v"`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := decode(t, tc.raw)
			objects.Default(obj)
			errs := objects.Validate(obj)
			if len(errs) == 0 {
				t.Fatalf("got no error, want %q", tc.want)
			}
			if got := errs.ToAggregate().Error(); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want it to contain %q", got, tc.want)
			}
		})
	}
}

func TestWhatIsValidPasses(t *testing.T) {
	for name, raw := range map[string]string{
		"a bare pod":               podWith(``),
		"a bare node":              nodeWith(``),
		"a namespace":              `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a"}}`,
		"fractions":                requests(`"cpu":"0.1","memory":"128974848000m","ephemeral-storage":"1.5Gi"`),
		"zero":                     requests(`"cpu":"0","nvidia.com/gpu":0`),
		"huge pages":               containerWith(`"resources":{"limits":{"hugepages-2Mi":"4Mi"}}`),
		"the largest":              nodeWith(`"status":{"capacity":{"memory":"8Pi","cpu":"9007199254740992m"}}`),
		"a sidecar":                podWith(`"initContainers":[{"name":"s","restartPolicy":"Always"}]`),
		"two protocols on a port":  containerWith(`"ports":[{"containerPort":53,"hostPort":53},{"containerPort":53,"hostPort":53,"protocol":"UDP"}]`),
		"host network":             podWith(`"hostNetwork":true,"initContainers":[{"name":"i","ports":[{"containerPort":80}]}]`),
		"a system pod":             podWith(`"priorityClassName":"system-cluster-critical"`),
		"a toleration of all":      podWith(`"tolerations":[{"operator":"Exists"}]`),
		"an eviction delay":        podWith(`"tolerations":[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]`),
		"numbers compared":         requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"Gt","values":["3"]}]}`),
		"a node by name":           requiredNodeAffinity(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}`),
		"an empty preference":      affinityWith(`"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}}]}`),
		"a spread":                 spreadWith(`"minDomains":2,"nodeAffinityPolicy":"Ignore","labelSelector":{"matchLabels":{"a":"b"}}`),
		"a hash as label":          nodeWith(`"spec":{"taints":[{"key":"commit","value":"5e12345","effect":"NoSchedule"}]}`),
		"pod-level resources":      podWith(`"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"1Gi"}}`),
		"a taint of each effect":   nodeWith(`"spec":{"taints":[{"key":"k","effect":"NoSchedule"},{"key":"k","effect":"NoExecute"},{"key":"k","effect":"PreferNoSchedule"}]}`),
		"a pod that is on a node":  podWith(`"nodeName":"n1"`),
		"an unknown class, so far": podWith(`"priorityClassName":"high","priority":1000`),
	} {
		t.Run(name, func(t *testing.T) {
			obj := decode(t, raw)
			objects.Default(obj)
			if errs := objects.Validate(obj); len(errs) > 0 {
				t.Errorf("got %v, want none", errs)
			}
		})
	}
}

func TestErrorsStayShort(t *testing.T) {
	longest, long := strings.Repeat("x", 10<<20), strings.Repeat("x", 1<<20)
	for name, raw := range map[string]string{
		"a label of 10 MB":     `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a":"` + longest + `"}}}`,
		"a label key of 1 MB":  `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"` + long + `":"a"}}}`,
		"a name of 1 MB":       `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + long + `"}}`,
		"a protocol of 1 MB":   containerWith(`"ports":[{"containerPort":80,"protocol":"` + long + `"}]`),
		"an operator of 1 MB":  requiredNodeAffinity(`{"matchExpressions":[{"key":"k","operator":"` + long + `"}]}`),
		"a resource of 1 MB":   requests(`"` + long + `":"1"`),
		"a gate of 1 MB twice": podWith(`"schedulingGates":[{"name":"` + long + `"},{"name":"` + long + `"}]`),
	} {
		t.Run(name, func(t *testing.T) {
			obj := decode(t, raw)
			objects.Default(obj)
			begin := time.Now()
			errs := objects.Validate(obj)
			if len(errs) == 0 {
				t.Fatal("got no error")
			}
			if got := len(errs.ToAggregate().Error()); got > 2000 {
				t.Errorf("the error has %d bytes: %.200s…", got, errs.ToAggregate().Error())
			}
			if got := len(objects.RefOf(obj).String()); got > 300 {
				t.Errorf("the reference has %d bytes", got)
			}
			t.Logf("validated in %v", time.Since(begin))
		})
	}
}

func TestAnObjectMayHaveAMebibyte(t *testing.T) {
	p := decode(t, podWith(``)).(*v1.Pod)
	objects.Default(p)
	p.Spec.Containers[0].Command = []string{strings.Repeat("x", objects.MaxBytes)}
	errs := objects.Validate(p)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "too many bytes") {
		t.Errorf("got %v, want one error about its bytes", errs)
	}
}

func TestManyErrorsAreBounded(t *testing.T) {
	p := decode(t, podWith(``)).(*v1.Pod)
	for range 10000 {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "C"})
	}
	objects.Default(p)
	if got := len(objects.Validate(p)); got == 0 || got > 100 {
		t.Errorf("got %d errors, want some, and at most 100", got)
	}
}
