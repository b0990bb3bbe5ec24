//go:build linux

package clients

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A Kit is what runs the programs of one language.
type Kit struct {
	// Missing says in one line why the kit cannot run, nil if it can.
	Missing error
	argv    []string // in front of a program's arguments
	env     []string // in addition to the environment
}

// Kits are the kits by name.
type Kits map[string]*Kit

// Install makes all kits ready. Packages come from their registries, in the
// versions named here, into a directory below os.UserCacheDir that is kept. A
// kit that cannot be had is Missing and hurts no other.
func Install(ctx context.Context) (Kits, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	in := &installer{source: sourceDir(), cache: filepath.Join(cache, "sqlwitness", "clients")}
	if err := os.MkdirAll(in.cache, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	kits := Kits{"cli": {}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, install := range map[string]func(context.Context) (*Kit, error){
		"java": in.java, "python": in.python, "node": in.node, "golang": in.golang,
	} {
		wg.Go(func() {
			kit, err := install(ctx)
			if err != nil {
				kit = &Kit{Missing: fmt.Errorf("the %s clients are out of reach: %w", name, err)}
			}
			mu.Lock()
			defer mu.Unlock()
			kits[name] = kit
		})
	}
	wg.Wait()
	return kits, nil
}

// installTimeout is far above the half minute that all packages take, once.
const installTimeout = 2 * time.Minute

// sourceDir is the folder of this file, where the programs' sources are.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

type installer struct{ source, cache string }

func (in *installer) java(ctx context.Context) (*Kit, error) {
	jars, err := in.once(ctx, "java", []string{connectorJ, mariadbConnectorJ}, func(dir string) [][]string {
		const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
		var commands [][]string
		for _, artifact := range []string{"com.mysql:mysql-connector-j:" + connectorJ, "org.mariadb.jdbc:mariadb-java-client:" + mariadbConnectorJ} {
			commands = append(commands, []string{"mvn", "-q", "-B", copyGoal, "-Dartifact=" + artifact, "-DoutputDirectory=" + dir})
		}
		return commands
	})
	if err != nil {
		return nil, err
	}
	sources, _ := filepath.Glob(filepath.Join(in.source, "java", "*.java"))
	hash := sha256.New()
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		hash.Write(text)
	}
	classes, err := in.once(ctx, "classes", []string{fmt.Sprintf("%x", hash.Sum(nil)[:8])}, func(dir string) [][]string {
		return [][]string{append([]string{"javac", "-encoding", "UTF-8", "-d", dir, "-cp", filepath.Join(jars, "*")}, sources...)}
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(jars, "*") + ":" + classes
	return &Kit{argv: []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "Client"}}, nil
}

func (in *installer) python(ctx context.Context) (*Kit, error) {
	dir, err := in.once(ctx, "python", []string{connectorPython, pyMySQL}, func(dir string) [][]string {
		return [][]string{{"python3", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--root-user-action=ignore", "--retries=1", "--timeout=20", "--target=" + dir,
			"mysql-connector-python==" + connectorPython, "pymysql==" + pyMySQL}}
	})
	if err != nil {
		return nil, err
	}
	return &Kit{argv: []string{"python3", "-B", filepath.Join(in.source, "python", "client.py")}, env: []string{"PYTHONPATH=" + dir}}, nil
}

func (in *installer) node(ctx context.Context) (*Kit, error) {
	dir, err := in.once(ctx, "node", []string{mysql2}, func(dir string) [][]string {
		return [][]string{{"npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix", dir, "mysql2@" + mysql2}}
	})
	if err != nil {
		return nil, err
	}
	return &Kit{argv: []string{"node", filepath.Join(in.source, "node", "client.js")}, env: []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}}, nil
}

func (in *installer) golang(ctx context.Context) (*Kit, error) {
	path := filepath.Join(in.cache, "golang")
	if err := run(ctx, []string{"go", "build", "-C", in.source, "-o", path, "./golang"}); err != nil {
		return nil, err
	}
	return &Kit{argv: []string{path}}, nil
}

// once runs commands that fill a directory, unless it is there already, and
// returns the directory. A half-filled one never gets the name.
func (in *installer) once(ctx context.Context, name string, versions []string, commands func(dir string) [][]string) (string, error) {
	dir := filepath.Join(in.cache, name+"-"+strings.Join(versions, "-"))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part, err := os.MkdirTemp(in.cache, "."+name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	for _, argv := range commands(part) {
		if err := run(ctx, argv); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// run runs a command to its end; an error is one line.
func run(ctx context.Context, argv []string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("no %s here", argv[0])
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %.200s", argv[0], err, errorLine(string(out)))
	}
	return nil
}

// errorLine is the first line of an output that speaks of an error, else the
// last.
func errorLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if strings.Contains(strings.ToLower(l), "error") && !strings.HasPrefix(l, "WARNING") {
			return l
		}
	}
	return lines[len(lines)-1]
}
