//go:build linux

// Package kafka runs a private Apache Kafka broker for tests and measurements.
//
// A Broker is one node in KRaft mode, with a data directory of its own on ports of
// its own, and is stopped by its own process id.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Version is the broker's.
const Version = "4.1.1"

// ErrOutOfReach means that the broker cannot be had on this machine: no Java, no
// Maven, or no repository.
var ErrOutOfReach = errors.New("the Kafka broker is out of reach")

// installTimeout is far above the quarter of a minute that the 54 MB take, once.
const installTimeout = 3 * time.Minute

// pom asks Maven for the broker and its console consumer with all they need, and
// for what makes them log.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sqlwitness</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>` + Version + `</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>` + Version + `</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.24.3</version>
    </dependency>
  </dependencies>
</project>
`

// Install makes the broker's jars ready and returns their directory. They come
// from Maven's repository into a directory below os.UserCacheDir that is kept.
func Install(ctx context.Context) (string, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: %v", ErrOutOfReach, err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "sqlwitness")
	dir := filepath.Join(cache, "kafka-"+Version+"-tools")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, ".kafka-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := os.WriteFile(filepath.Join(part, "pom.xml"), []byte(pom), 0o644); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	jars := filepath.Join(part, "jars")
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(part, "pom.xml"),
		"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", "-DoutputDirectory="+jars)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: mvn: %v: %s", ErrOutOfReach, err, strings.TrimSpace(tail(out)))
	}
	return dir, os.Rename(jars, dir)
}

// tail is the end of a log for an error message.
func tail(log []byte) string {
	const keep = 800
	if len(log) > keep {
		log = log[len(log)-keep:]
	}
	return strings.TrimSpace(string(log))
}
