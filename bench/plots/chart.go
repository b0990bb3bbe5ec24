// Package plots draws line charts as SVG, and holds the plots of bench/RESULTS.md
// beside the data that they are drawn from.
package plots

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
	"text/template"
)

// A Chart is a picture of series over two axes. The reader's colour scheme decides
// whether it is light or dark.
type Chart struct {
	Title, Subtitle string
	X, Y            Axis
	Series          []Series
}

// An Axis maps values to the picture.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool
	Ticks    []Tick
}

// A Tick is a labelled value.
type Tick struct {
	At    float64
	Label string
}

// A Series is a line with a mark at each point.
type Series struct {
	Name   string
	Colour int // of colour and mark, 0 to 11
	Points []Point
	Dashed bool // somebody else's figures
	Strong bool // the line to look at
}

// A Point is in the units of the axes.
type Point struct{ X, Y float64 }

// The picture, in pixels: the plot and, to its right, the legend.
const (
	width, height            = 860, 440
	left, right, top, bottom = 64, 610, 64, 384
)

// colours are for a light and a dark background; neighbours differ in lightness,
// too.
var colours = [][2]string{
	{"#d62828", "#ff7b72"}, {"#3d5a80", "#9ecbff"}, {"#2a9d8f", "#56d4c4"}, {"#b5770d", "#f2b84b"}, {"#7b2cbf", "#d2a8ff"}, {"#386641", "#8ddb8c"},
	{"#0077b6", "#79c0ff"}, {"#9d4edd", "#e2c5ff"}, {"#6c757d", "#b1bac4"}, {"#bc6c25", "#ffa657"}, {"#495057", "#8b949e"}, {"#c9184a", "#ff9bce"},
}

// position is where a value lies between the ends of the picture's axis.
func (a Axis) position(v, from, to float64) float64 {
	v = math.Min(math.Max(v, a.Min), a.Max)
	lo, hi := a.Min, a.Max
	if a.Log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return from + (v-lo)/(hi-lo)*(to-from)
}

func (c Chart) x(v float64) float64 { return c.X.position(v, left, right) }
func (c Chart) y(v float64) float64 { return c.Y.position(v, bottom, top) }

// SVG draws the chart. The same chart gives the same bytes.
func (c Chart) SVG() ([]byte, error) {
	for _, s := range c.Series {
		if s.Colour < 0 || s.Colour >= len(colours) {
			return nil, fmt.Errorf("%s: colour %d of %d", s.Name, s.Colour, len(colours))
		}
	}
	var b bytes.Buffer
	err := svg.Execute(&b, c)
	return b.Bytes(), err
}

var svg = template.Must(template.New("svg").Funcs(template.FuncMap{
	"px": func(v float64) string { return fmt.Sprintf("%.1f", v) }, "esc": html.EscapeString,
	"colours": func() [][2]string { return colours },
}).Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 440" role="img" aria-label="{{esc .Title}}">
<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: 600 } .soft { fill: #59636e }
.back { fill: #ffffff } .grid { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #59636e; stroke-width: 1 }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round } .strong { stroke-width: 3.5 } .dashed { stroke-dasharray: 6 4 }
{{range $i, $c := colours}}.s{{$i}} { stroke: {{index $c 0}} } .m{{$i}} { fill: {{index $c 0}} } {{end}}
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9198a1 } .back { fill: #0d1117 } .grid { stroke: #30363d } .axis { stroke: #9198a1 }
{{range $i, $c := colours}}.s{{$i}} { stroke: {{index $c 1}} } .m{{$i}} { fill: {{index $c 1}} } {{end}}
}
</style>
<rect class="back" width="860" height="440"/>
<text class="title" x="64" y="28">{{esc .Title}}</text>
<text class="soft" x="64" y="47">{{esc .Subtitle}}</text>
{{range .Y.Ticks}}<line class="grid" x1="64" x2="610" y1="{{px ($.PlotY .At)}}" y2="{{px ($.PlotY .At)}}"/><text x="56" y="{{px ($.TextY .At)}}" text-anchor="end">{{esc .Label}}</text>
{{end}}{{range .X.Ticks}}<line class="axis" x1="{{px ($.PlotX .At)}}" x2="{{px ($.PlotX .At)}}" y1="384" y2="389"/><text x="{{px ($.PlotX .At)}}" y="404" text-anchor="middle">{{esc .Label}}</text>
{{end}}<line class="axis" x1="64" x2="610" y1="384" y2="384"/><line class="axis" x1="64" x2="64" y1="64" y2="384"/>
<text class="soft" x="337" y="428" text-anchor="middle">{{esc .X.Label}}</text>
<text class="soft" x="16" y="224" text-anchor="middle" transform="rotate(-90 16 224)">{{esc .Y.Label}}</text>
{{range $i, $s := .Series}}<polyline class="s{{.Colour}}{{if .Strong}} strong{{end}}{{if .Dashed}} dashed{{end}}" points="{{$.Line $s}}"/>
{{range .Points}}{{$.Mark $s.Colour ($.PlotX .X) ($.PlotY .Y)}}{{end}}
{{$y := $.LegendY $i}}<polyline class="s{{.Colour}}{{if .Strong}} strong{{end}}{{if .Dashed}} dashed{{end}}" points="628,{{px $y}} 656,{{px $y}}"/>{{$.Mark .Colour 642 $y}}<text x="664" y="{{px ($.LegendText $i)}}">{{esc .Name}}</text>
{{end}}</svg>
`))

// What follows is for the template.

// PlotX is the x of a value in the picture.
func (c Chart) PlotX(v float64) float64 { return c.x(v) }

// PlotY is the y of a value in the picture.
func (c Chart) PlotY(v float64) float64 { return c.y(v) }

// TextY is the base line of a label beside it.
func (c Chart) TextY(v float64) float64 { return c.y(v) + 4 }

// LegendY is the middle of line i of the legend.
func (c Chart) LegendY(i int) float64 { return float64(top + 8 + 24*i) }

// LegendText is its base line.
func (c Chart) LegendText(i int) float64 { return c.LegendY(i) + 4 }

// Line lists a series' points.
func (c Chart) Line(s Series) string {
	var points []string
	for _, p := range s.Points {
		points = append(points, fmt.Sprintf("%.1f,%.1f", c.x(p.X), c.y(p.Y)))
	}
	return strings.Join(points, " ")
}

// Mark draws a point; colours next to each other have different shapes.
func (c Chart) Mark(colour int, x, y float64) string {
	switch colour % 4 {
	case 0:
		return fmt.Sprintf(`<circle class="m%d" cx="%.1f" cy="%.1f" r="4"/>`, colour, x, y)
	case 1:
		return fmt.Sprintf(`<rect class="m%d" x="%.1f" y="%.1f" width="7" height="7"/>`, colour, x-3.5, y-3.5)
	case 2:
		return fmt.Sprintf(`<path class="m%d" d="M%.1f %.1fl4.5 8h-9z"/>`, colour, x, y-5)
	default:
		return fmt.Sprintf(`<path class="m%d" d="M%.1f %.1fl5 5-5 5-5-5z"/>`, colour, x, y-5)
	}
}
