package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sqlwitness/analyze"
)

// showConfig prints the effective configuration with the meaning of every key, or
// only says whether it is valid, or prints the starter rules of consume.
func showConfig(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "print" && args[0] != "check" && args[0] != "rules" {
		return usageError{fmt.Errorf("config: say print, check or rules")}
	}
	if args[0] == "rules" {
		_, err := stdout.Write(analyze.StarterText())
		return err
	}
	c := defaultConfig()
	rest, err := parseFlags("config "+args[0], args[1:], &c, stderr)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("config %s: unexpected argument %q", args[0], rest[0])}
	}
	if args[0] == "check" {
		return c.checkRoles(stdout)
	}
	if _, err := c.Select.compile(); err != nil {
		return err
	}
	if err := c.checkWatch(); err != nil {
		return err
	}
	node, err := document(reflect.ValueOf(c))
	if err != nil {
		return err
	}
	enc := yaml.NewEncoder(stdout)
	enc.SetIndent(2)
	return enc.Encode(node)
}

// checkRoles refuses what the commands that the configuration is for would refuse at
// their start. It says what the rules of a run cost.
func (c *config) checkRoles(w io.Writer) error {
	roles := c.roles()
	for _, r := range roles {
		if err := c.checkStart(r); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "the configuration is valid for %s\n", joinRoles(roles))
	if !slices.Contains(roles, roleRun) {
		return nil
	}
	rules, err := c.Select.compile()
	if err == nil {
		printCosts(w, rules)
	}
	return err
}

// document turns a configuration into YAML with its docs as comments.
func document(v reflect.Value) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		value := &yaml.Node{}
		if strings.HasSuffix(f.Type.Name(), "Config") && f.Tag.Get("yaml") == name {
			var err error
			if value, err = document(v.Field(i)); err != nil {
				return nil, err
			}
		} else if err := value.Encode(v.Field(i).Interface()); err != nil {
			return nil, err
		}
		if value.Kind == yaml.SequenceNode || f.Name == "Labels" {
			value.Style = yaml.FlowStyle
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name, HeadComment: f.Tag.Get("doc")}
		n.Content = append(n.Content, key, value)
	}
	return n, nil
}
