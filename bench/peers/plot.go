package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sqlwitness/bench/plots"
)

// Published are figures of an agent that its authors measured, on their machines.
type Published struct {
	Title  string `json:"title"`
	URL    string `json:"url"`
	Series []struct {
		Name string `json:"name"`
		Rows []struct {
			QPS  float64 `json:"qps"`
			Loss float64 `json:"loss_percent"`
			CPU  float64 `json:"cpu_percent"`
		} `json:"rows"`
	} `json:"series"`
	Steps []string `json:"steps"` // what they changed, and what it gave
}

// ReadPublished reads them.
func ReadPublished(path string) (Published, error) {
	var p Published
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Files of the folder with the plots.
const (
	DataFile      = "peers.json"
	PublishedFile = "published.json"
	LossFile      = "loss.svg"
	CPUFile       = "cpu.svg"
)

// Plots draws the two plots of a report and returns them under their files' names.
func Plots(r Report, p Published) (map[string][]byte, error) {
	loss := plots.Chart{
		Title: "Statements lost", X: rateAxis,
		Y: plots.Axis{Label: "lost, % of the statements sent", Min: 0, Max: 100,
			Ticks: []plots.Tick{{At: 0, Label: "0"}, {At: 20, Label: "20"}, {At: 40, Label: "40"}, {At: 60, Label: "60"}, {At: 80, Label: "80"}, {At: 100, Label: "100"}}},
	}
	cpu := plots.Chart{
		Title: "Processor time", X: rateAxis,
		Y: plots.Axis{Label: "% of one core while the load ran (logarithmic)", Min: 0.05, Max: 1000, Log: true,
			Ticks: []plots.Tick{{At: 0.1, Label: "0.1"}, {At: 0.3, Label: "0.3"}, {At: 1, Label: "1"}, {At: 3, Label: "3"}, {At: 10, Label: "10"}, {At: 30, Label: "30"}, {At: 100, Label: "100"}, {At: 300, Label: "300"}, {At: 1000, Label: "1000"}}},
	}
	loss.Subtitle = fmt.Sprintf("one load, %s; dashed: published by others, on their machines", r.Date)
	cpu.Subtitle = loss.Subtitle
	for i, tool := range r.Tools {
		l := plots.Series{Name: tool.Name, Colour: i, Strong: tool.Name == Own}
		c := l
		for _, run := range r.of(tool.Name) {
			if run.Counted {
				l.Points = append(l.Points, plots.Point{X: run.Reached, Y: run.Loss()})
			}
			c.Points = append(c.Points, plots.Point{X: run.Reached, Y: run.CPUPercent})
		}
		cpu.Series = append(cpu.Series, c)
		if len(l.Points) > 0 {
			loss.Series = append(loss.Series, l)
		}
	}
	for i, s := range p.Series {
		l := plots.Series{Name: s.Name, Colour: len(r.Tools) + i, Dashed: true}
		c := l
		for _, row := range s.Rows {
			l.Points = append(l.Points, plots.Point{X: row.QPS, Y: row.Loss})
			c.Points = append(c.Points, plots.Point{X: row.QPS, Y: row.CPU})
		}
		loss.Series, cpu.Series = append(loss.Series, l), append(cpu.Series, c)
	}
	files := map[string][]byte{}
	for name, chart := range map[string]plots.Chart{LossFile: loss, CPUFile: cpu} {
		svg, err := chart.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = svg
	}
	return files, nil
}

var rateAxis = plots.Axis{Label: "statements per second that were reached (logarithmic)", Min: 4000, Max: 120_000, Log: true,
	Ticks: []plots.Tick{{At: 5000, Label: "5,000"}, {At: 10_000, Label: "10,000"}, {At: 20_000, Label: "20,000"}, {At: 50_000, Label: "50,000"}, {At: 100_000, Label: "100,000"}}}

// Render writes the plots into dir, and the section of the results file, from the
// data in dir.
func Render(dir, results string) error {
	r, err := Read(filepath.Join(dir, DataFile))
	if err != nil {
		return err
	}
	p, err := ReadPublished(filepath.Join(dir, PublishedFile))
	if err != nil {
		return err
	}
	files, err := Plots(r, p)
	if err != nil {
		return err
	}
	for name, svg := range files {
		if err := os.WriteFile(filepath.Join(dir, name), svg, 0o644); err != nil {
			return err
		}
	}
	return WriteSection(results, "peers", Markdown(r, p))
}
