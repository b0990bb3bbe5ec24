package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"sqlwitness/sender"
)

// checkListen looks at what 'receive' needs to be reached: its address, and its own
// certificate.
func (d *doctor) checkListen() {
	const name = "receive"
	c := &d.config.Receive
	l, err := net.Listen("tcp", c.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		d.ok(name, "%s is in use, as it is while the collector runs", c.Listen)
	case err != nil:
		d.say(gradeDown, name, "receive.listen: "+err.Error(), "an address of this machine, and a port that this user may have")
	default:
		l.Close()
		d.ok(name, "%s can be had", c.Listen)
	}
	d.checkOwnCertificates(name, c.TLS.sender())
}

// checkConsumer looks at what 'consume' needs: the topic with the events, the one for
// findings, and a place for its state.
func (d *doctor) checkConsumer(ctx context.Context) {
	c := &d.config.Consume
	if len(c.Brokers) == 0 {
		return // checkConfiguration has said so
	}
	sasl, err := c.SASL.sender("consume.sasl")
	if err != nil {
		d.say(gradeDown, "consume", err.Error(), "")
		return
	}
	cluster := sender.KafkaCluster{Brokers: c.Brokers, ClientID: "sqlwitness-check", TLS: c.TLS.sender(), SASL: sasl}
	if d.checkKafka(ctx, "consume", cluster, c.Topic) && c.Alerts != "" {
		d.checkTopic(ctx, "consume.alerts", cluster, c.Alerts)
	}
	if c.State != "" {
		d.checkConsumerState(c.State)
	}
}

// checkConsumerState looks whether the state, a file or a directory, can be written.
func (d *doctor) checkConsumerState(path string) {
	const name = "consume.state"
	dir := path
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		dir = filepath.Dir(path)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err == nil {
		_, err = sender.CheckDir(dir)
	}
	if err != nil {
		d.say(gradeDown, name, err.Error(), "make the directory, and let the consumer's user write there")
		return
	}
	d.ok(name, "%s can be written", path)
}
