package kubeserving

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_*, leader_election_*
	"k8s.io/component-base/metrics/prometheus/slis"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // workqueue_*
)

// component is the name under which kube-scheduler shows itself.
const component = "kube-scheduler"

// Config is what is served.
type Config struct {
	// Healthy and Ready are the checks of /healthz and /readyz; /livez has none but ping.
	Healthy, Ready []healthz.HealthChecker
	// Gatherer holds the scheduler's metrics. Those of the libraries are served beside them, all
	// of them as Filter has it; nil: all as they are.
	Gatherer prometheus.Gatherer
	Filter   *MetricsFilter
	// Pods are all pods that the process knows, for /metrics/resources, which is empty
	// unless Leading.
	Pods    func() []*v1.Pod
	Leading func() bool
	// Configuration is shown by /configz, Flags by /flagz; nil: not.
	Configuration any
	Flags         *cliflag.NamedFlagSets
	// Version is shown by /statusz; nil: not.
	Version compatibility.EffectiveVersion
	// Profiling adds /debug.
	Profiling bool
	// Console is served at /console and below; nil: none is.
	Console http.Handler
}

// Handler serves the endpoints to whoever asks: Guard it.
func (c Config) Handler() http.Handler {
	m := mux.NewPathRecorderMux(component)
	healthz.InstallHandler(m, c.Healthy...)
	healthz.InstallLivezHandler(m)
	healthz.InstallReadyzHandler(m, c.Ready...)
	m.Handle("/metrics", metricsHandler(c.Gatherer, c.Filter))
	m.Handle("/metrics/resources", c.resources())
	slis.SLIMetricsWithReset{}.Install(m)
	if c.Configuration != nil {
		m.HandleFunc("/configz", c.configz)
	}
	if c.Console != nil {
		m.Handle("/console", c.Console)
		m.HandlePrefix("/console/", c.Console)
	}
	if c.Profiling {
		routes.Profiling{}.Install(m)
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	if c.Flags != nil {
		flagz.Install(m, component, flagz.NamedFlagSetsReader{FlagSets: *c.Flags})
	}
	if c.Version != nil {
		statusz.Install(m, component, statusz.NewRegistry(c.Version, statusz.WithListedPaths(m.ListedPaths())))
	}
	return m
}

// configz writes the configuration as kube-scheduler does: one object by the name of its part.
func (c Config) configz(w http.ResponseWriter, _ *http.Request) {
	text, err := json.Marshal(map[string]any{"componentconfig": c.Configuration})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(text)
}

// Guard lets through who is known and allowed to ask for the path.
func Guard(h http.Handler, who authenticator.Request, may authorizer.Authorizer) http.Handler {
	info := &request.RequestInfoFactory{}
	h = filters.WithAuthorization(h, may, scheme.Codecs)
	h = filters.WithAuthentication(h, who, filters.Unauthorized(scheme.Codecs), nil, nil)
	h = filters.WithRequestInfo(h, info)
	h = filters.WithCacheControl(h)
	h = genericfilters.WithHTTPLogging(h)
	return genericfilters.WithPanicRecovery(h, info)
}
