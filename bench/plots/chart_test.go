package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func simple() Chart {
	return Chart{
		Title: "a < b & c", X: Axis{Min: 1, Max: 100, Log: true, Ticks: []Tick{{1, "1"}, {10, "ten"}, {100, "100"}}},
		Y: Axis{Min: 0, Max: 10, Ticks: []Tick{{0, "0 %"}, {10, "10 %"}}}, Series: []Series{
			{Name: "one", Strong: true, Points: []Point{{1, 0}, {10, 5}, {100, 10}}},
			{Name: "two", Colour: 1, Dashed: true, Points: []Point{{1000, -3}}},
			{Name: "three", Colour: 2}, {Name: "four", Colour: 3, Points: []Point{{3, 3}}},
		},
	}
}

// The corners, the middle of a logarithmic axis, and values beyond the ends.
func TestChartPlaces(t *testing.T) {
	svg, err := simple().SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`class="s0 strong" points="64.0,384.0 337.0,224.0 610.0,64.0"`, // (left, bottom), the middle, (right, top)
		`class="s1 dashed" points="610.0,384.0"`,
		`<text x="337.0" y="404" text-anchor="middle">ten</text>`, `>10 %</text>`, `a &lt; b &amp; c`, `prefers-color-scheme: dark`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	if again, _ := simple().SVG(); !bytes.Equal(svg, again) {
		t.Error("the same chart drawn twice differs")
	}
}

// Every element is closed, and texts cannot break out.
func TestChartIsXML(t *testing.T) {
	svg, err := simple().SVG()
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

func TestChartHasAColourForEach(t *testing.T) {
	c := simple()
	c.Series[0].Colour = len(colours)
	if _, err := c.SVG(); err == nil {
		t.Error("a colour that does not exist, and no error")
	}
}
