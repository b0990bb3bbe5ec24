package peers

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	plotsDir = "../plots"
	results  = "../RESULTS.md"
)

// The plots and the section that are committed are those of the data that is
// committed: go run ./bench/cmd/peers -render makes them anew.
func TestPlotsComeFromTheData(t *testing.T) {
	r, err := Read(filepath.Join(plotsDir, DataFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPublished(filepath.Join(plotsDir, PublishedFile))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Plots(r, p)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(plotsDir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the data gives: %v", name, err)
		}
	}
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	same, err := ReplaceSection(string(text), "peers", Markdown(r, p))
	if err != nil || same != string(text) {
		t.Errorf("the section of %s is not what the data gives: %v", results, err)
	}
}

// Every figure that was published, and no point of a tool that counts nothing, is in
// the plot of the losses.
func TestPlotsHaveAllSeries(t *testing.T) {
	p, err := ReadPublished(filepath.Join(plotsDir, PublishedFile))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Plots(sample(), p)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		LossFile: {">sqlwitness<", ">slow<", ">rds-agent before (published)<", ">rds-agent after (published)<"},
		CPUFile:  {">sqlwitness<", ">slow<", ">raw<", ">rds-agent before (published)<", ">rds-agent after (published)<"},
	} {
		svg := string(files[name])
		for _, w := range want {
			if !strings.Contains(svg, w) {
				t.Errorf("%s has no %s", name, w)
			}
		}
		if lines := strings.Count(svg, "<polyline"); lines != 2*len(want) { // each also in the legend
			t.Errorf("%s has %d lines, want %d", name, lines, 2*len(want))
		}
	}
}
