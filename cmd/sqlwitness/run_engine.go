package main

import (
	"log/slog"

	"sqlwitness/probe"
	"sqlwitness/worker"
)

// An engine is a live capture under way.
type engine interface {
	sources() []worker.Source // one per shard
	stats() []probe.Stats     // of each ring
	SetFilter(probe.Filter) error
	Stop() error
	Close() error
}

// An openEngine starts a live capture.
type openEngine func(*config, probe.Filter, *slog.Logger) (engine, error)

// rings are the engine of Linux.
type rings struct{ *probe.Group }

func openRings(c *config, filter probe.Filter, log *slog.Logger) (engine, error) {
	group, err := probe.OpenGroup(probe.Config{
		Shards: c.Capture.Shards, Filter: filter, Blocks: c.Capture.RingBlocks,
		BlockBytes: c.blockBytes(filter.Interfaces, log), BlockTimeout: c.Capture.Tick,
	})
	if err != nil {
		return nil, err
	}
	return rings{group}, nil
}

func (r rings) sources() (out []worker.Source) {
	for _, ring := range r.Rings() {
		out = append(out, ring)
	}
	return out
}

func (r rings) stats() (out []probe.Stats) {
	for _, ring := range r.Rings() {
		out = append(out, ring.Stats())
	}
	return out
}
