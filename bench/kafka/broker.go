//go:build linux

package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sqlwitness/bench/freeport"
)

// A Broker is a running Kafka.
type Broker struct {
	Dir  string // holds everything of this broker; Stop removes it
	Addr string // host:port

	// Behind is a second address of the broker, for a proxy: who asks there for the
	// brokers is told to connect to Front, where nobody answers but the proxy.
	Behind string
	Front  net.Listener

	// Secure is a third one, with TLS by a certificate of the authority in the file CA,
	// and SASL: SecureUser has SecurePassword.
	Secure, CA string

	jars   string
	cmd    *exec.Cmd
	exited chan struct{}
}

// startTimeout is far above the five seconds that a start takes, for busy
// machines.
const startTimeout = 2 * time.Minute

// Start makes a broker on 127.0.0.1 and returns when it serves. New topics have
// the given number of partitions, and are made when they are first named only if
// autoCreate is set.
func Start(ctx context.Context, partitions int, autoCreate bool) (*Broker, error) {
	jars, err := Install(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		b, err := start(ctx, jars, partitions, autoCreate)
		// Another process may take a port before the broker does.
		if err == nil || try == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return b, err
		}
	}
}

func start(ctx context.Context, jars string, partitions int, autoCreate bool) (*Broker, error) {
	dir, err := os.MkdirTemp("", "sqlwitness-kafka-")
	if err != nil {
		return nil, err
	}
	b := &Broker{Dir: dir, jars: jars}
	if err := b.configure(ctx, partitions, autoCreate); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	if err := b.Run(ctx); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// settings are the broker's server.properties; the arguments are three ports, the
// directory, the partitions of a topic, whether topics make themselves, and the
// address in front of the third port, and a fourth port.
const settings = `node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d,BEHIND://127.0.0.1:%d,SECURE://127.0.0.1:%[8]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d,BEHIND://%[7]s,SECURE://127.0.0.1:%[8]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BEHIND:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:%[2]d
log.dirs=%[4]s/data
num.partitions=%[5]d
auto.create.topics.enable=%[6]t
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
log.cleaner.enable=false
`

const logging = `rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.target=SYSTEM_ERR
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
`

func (b *Broker) configure(ctx context.Context, partitions int, autoCreate bool) error {
	var ports [4]int
	var err error
	for i := range ports {
		if ports[i], err = freeport.Free(); err != nil {
			return err
		}
	}
	b.Addr, b.Behind = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[2])
	if b.Front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	b.Secure = fmt.Sprintf("127.0.0.1:%d", ports[3])
	secure, err := b.secure()
	if err != nil {
		return err
	}
	text := fmt.Sprintf(settings, ports[0], ports[1], ports[2], b.Dir, partitions, autoCreate, b.Front.Addr(), ports[3]) + secure
	if err := os.WriteFile(b.file("server.properties"), []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(b.file("log4j2.properties"), []byte(logging), 0o644); err != nil {
		return err
	}
	format := b.java(ctx, append([]string{"kafka.tools.StorageTool", "format", "-t", "c3Fsd2l0bmVzc3Rlc3Q5OQ", "-c", b.file("server.properties")}, scramUsers()...)...)
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format kafka storage: %w: %s", err, tail(out))
	}
	return nil
}

func (b *Broker) java(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile=" + b.file("log4j2.properties"), "-cp", filepath.Join(b.jars, "*")}, args...)...)
}

func (b *Broker) file(name string) string { return filepath.Join(b.Dir, name) }

// Run starts the broker again after Kill, on the same data and port, and returns
// when it serves.
func (b *Broker) Run(ctx context.Context) error {
	out, err := os.Create(b.file("broker.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	b.cmd, b.exited = b.java(context.Background(), "kafka.Kafka", b.file("server.properties")), make(chan struct{})
	b.cmd.Stdout, b.cmd.Stderr = out, out
	// The broker outlives no caller, not even one that is killed.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start kafka: %w", err)
	}
	go func() {
		b.cmd.Wait()
		close(b.exited)
	}()
	deadline := time.After(startTimeout)
	for {
		log, _ := os.ReadFile(b.file("broker.log"))
		if bytes.Contains(log, []byte("Kafka Server started")) {
			return nil
		}
		select {
		case <-b.exited:
			return fmt.Errorf("kafka ended at start: %s", tail(log))
		case <-deadline:
			return fmt.Errorf("kafka is not ready after %v: %s", startTimeout, tail(log))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ConsoleConsumer is a command that prints the first n records of a topic, as the
// distribution's kafka-console-consumer.sh does: the value of each on a line,
// behind "Partition:N" and a tab.
func (b *Broker) ConsoleConsumer(ctx context.Context, topic string, n int64) *exec.Cmd {
	return b.java(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", b.Addr, "--topic", topic,
		"--from-beginning", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000", "--property", "print.partition=true")
}

// Kill ends the broker as a power switch does: SIGKILL.
func (b *Broker) Kill() {
	if b.cmd == nil || b.cmd.Process == nil {
		return
	}
	b.cmd.Process.Kill()
	<-b.exited
}

// Stop ends the broker and removes Dir.
func (b *Broker) Stop() error {
	b.Kill()
	if b.Front != nil {
		b.Front.Close()
	}
	return os.RemoveAll(b.Dir)
}
