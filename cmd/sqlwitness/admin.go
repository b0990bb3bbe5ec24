package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// An admin serves metrics and profiles on loopback addresses: /metrics for
// Prometheus, and net/http/pprof for load tests:
//
//	go tool pprof http://127.0.0.1:6060/debug/pprof/profile?seconds=10
//
// One address serves both if both name it.
type admin struct {
	muxes     map[string]*http.ServeMux // by address
	listeners map[string]net.Listener
	metrics   *http.ServeMux // nil: not asked for
	profiles  *http.ServeMux // nil: not asked for
	servers   []*http.Server
}

// checkAdmin refuses addresses that openAdmin would not listen on.
func (c *config) checkAdmin() error {
	var profiles, metrics error
	if c.pprof != "" {
		profiles = checkLoopback("pprof", c.pprof)
	}
	if c.Metrics.Listen != "" {
		metrics = checkLoopback("metrics.listen", c.Metrics.Listen)
	}
	return firstError(profiles, metrics)
}

// openAdmin listens, so that an address that cannot be had is refused at once.
// Nobody is answered before serve.
func (c *config) openAdmin() (*admin, error) {
	if err := c.checkAdmin(); err != nil {
		return nil, usageError{err}
	}
	a := &admin{muxes: map[string]*http.ServeMux{}, listeners: map[string]net.Listener{}}
	if c.pprof != "" {
		mux, err := a.listen("pprof", c.pprof)
		if err != nil {
			return nil, err
		}
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		a.profiles = mux
	}
	if c.Metrics.Listen != "" {
		mux, err := a.listen("metrics.listen", c.Metrics.Listen)
		if err != nil {
			a.close()
			return nil, err
		}
		a.metrics = mux
	}
	return a, nil
}

// listen is the mux of an address, which key has in the configuration.
func (a *admin) listen(key, address string) (*http.ServeMux, error) {
	if mux := a.muxes[address]; mux != nil {
		return mux, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	mux := http.NewServeMux()
	a.muxes[address], a.listeners[address] = mux, l
	return mux, nil
}

// checkLoopback refuses an address that other machines reach.
func checkLoopback(key, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %q is no address; say 127.0.0.1:9713", key, address)
	}
	if err := listenAddress(key, address); err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s: %q is not allowed; only loopback addresses are, since whoever reaches it sees into the agent", key, address)
	}
	return nil
}

// serve answers from now on. Metrics are those of all, of the Go runtime and of the
// process.
func (a *admin) serve(log *slog.Logger, all ...prometheus.Collector) {
	if a.metrics != nil {
		a.metrics.Handle("/metrics", promhttp.HandlerFor(newRegistry(all...), promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	}
	for address, mux := range a.muxes {
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
		a.servers = append(a.servers, server)
		go server.Serve(a.listeners[address])
		log.Info("serving", "address", a.listeners[address].Addr(), "metrics", mux == a.metrics, "profiles", mux == a.profiles)
	}
}

// close lets answers under way end, and returns when nobody asks any more.
func (a *admin) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, server := range a.servers {
		if err := server.Shutdown(ctx); err != nil {
			errs = append(errs, server.Close())
		}
	}
	for _, l := range a.listeners {
		l.Close() // of what was never served
	}
	return errors.Join(errs...)
}

// newRegistry is what one endpoint serves. There is no global one.
func newRegistry(all ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(all...)
	return r
}
