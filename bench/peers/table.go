package peers

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table is a report for a terminal: a line for each tool and rate.
func Table(r Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tool\tasked/s\treached/s\tsent\tseen\tlost\trepeated\tright text\tright user\tCPU\tµs/statement\tmemory\tkernel drops\tp50 µs\tp99 µs\tcaught up\t")
	for _, run := range r.Runs {
		name := run.Tool
		if name == "" {
			name = "(load alone)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", name, thousands(int64(run.Rate)), thousands(int64(math.Round(run.Reached))), thousands(run.Sent))
		if run.Counted {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t", thousands(run.Seen), percent(run.Loss()), thousands(run.Repeated), share(run.Text, run.Seen), users(run.Counts))
		} else {
			fmt.Fprint(w, "–\t–\t–\t–\t–\t")
		}
		if run.Tool == "" {
			fmt.Fprintf(w, "–\t–\t–\t–\t%.0f\t%.0f\t–\t\n", run.P50, run.P99)
			continue
		}
		drops, caughtUp := "–", "yes"
		if run.KernelDrops != nil {
			drops = thousands(*run.KernelDrops)
		}
		if run.Behind {
			caughtUp = "no"
		}
		fmt.Fprintf(w, "%.1f %%\t%s\t%.0f MiB\t%s\t%.0f\t%.0f\t%s\t\n", run.CPUPercent, perStatement(run), run.MemoryMiB, drops, run.P50, run.P99, caughtUp)
	}
	w.Flush()
	return b.String()
}

// Markdown is a report for bench/RESULTS.md.
func Markdown(r Report, p Published) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s; %s. %d connections, %d command in flight on each, one row of %d bytes in each answer, over the loopback device, %v at each rate. "+
		"Each tool wrote what it saw; a statement that was not there within %v after the load's end is lost. Buffers are %d MiB where a tool lets one choose, "+
		"and part of its memory. What the kernel does to fill them is done by the load's processes, and counts for no tool.\n\n",
		r.Command, r.Date, strings.Join(r.Machine, ", "), r.Load.Connections, r.Load.Depth, r.Load.RowBytes, r.Load.Duration, maxCatchUp, bufferMiB)
	b.WriteString("Lost · CPU of one core, all processes of the tool · µs of CPU per statement seen:\n\n")
	matrix(&b, r)
	b.WriteString("\n")
	for _, t := range r.Tools {
		fmt.Fprintf(&b, "- %s: `%s`; %s", t.Name, t.Command, t.Version)
		if t.Note != "" {
			fmt.Fprintf(&b, "; %s", t.Note)
		}
		b.WriteString("\n")
	}
	for _, line := range r.Failed {
		fmt.Fprintf(&b, "- failed: %s\n", line)
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "- not on this machine: %s\n", strings.Join(r.Missing, ", "))
	}
	if line := ratios(r); line != "" {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	fmt.Fprintf(&b, "\n![Loss against statements per second](plots/%s)\n\n![CPU against statements per second](plots/%s)\n\n", LossFile, CPUFile)
	fmt.Fprintf(&b, "The dashed lines are not measured here. They are the figures of rds-agent, as [published](%s):\n\n| | statements per second | lost | CPU |\n|---|---|---|---|\n", p.URL)
	for _, s := range p.Series {
		for _, row := range s.Rows {
			fmt.Fprintf(&b, "| %s | %s | %g %% | %g %% |\n", s.Name, thousands(int64(row.QPS)), row.Loss, row.CPU)
		}
	}
	fmt.Fprintf(&b, "\nBetween the two, again as published: %s.\n\n", strings.Join(p.Steps, "; "))
	fmt.Fprintf(&b, "<details><summary>Every run</summary>\n\n```\n%s```\n</details>\n", Table(r))
	return b.String()
}

// matrix has a line for each tool and a column for each rate.
func matrix(b *strings.Builder, r Report) {
	var rates []float64
	for _, run := range r.of("") {
		rates = append(rates, run.Rate)
	}
	b.WriteString("| tool |")
	for _, rate := range rates {
		fmt.Fprintf(b, " %s/s |", thousands(int64(rate)))
	}
	b.WriteString(" right text, user | memory |\n|---|" + strings.Repeat("---|", len(rates)+2) + "\n")
	for _, t := range r.Tools {
		fmt.Fprintf(b, "| %s |", t.Name)
		runs := map[float64]Run{}
		var all Counts
		var memory float64
		for _, run := range r.of(t.Name) {
			runs[run.Rate] = run
			all.Seen, all.Text, all.Users, all.User = all.Seen+run.Seen, all.Text+run.Text, all.Users+run.Users, all.User+run.User
			memory = max(memory, run.MemoryMiB)
		}
		for _, rate := range rates {
			b.WriteString(" " + cell(runs, rate) + " |")
		}
		fmt.Fprintf(b, " %s, %s | %.0f MiB |\n", share(all.Text, all.Seen), users(all), memory)
	}
	b.WriteString("| *reached, load alone* |")
	for _, run := range r.of("") {
		fmt.Fprintf(b, " *%s/s* |", thousands(int64(math.Round(run.Reached))))
	}
	b.WriteString(" | |\n")
}

func cell(runs map[float64]Run, rate float64) string {
	run, ok := runs[rate]
	if !ok {
		return "failed"
	}
	lost := "–"
	if run.Counted {
		lost = percent(run.Loss())
	}
	digits := 0
	if run.CPUPercent < 9.5 {
		digits = 1
	}
	return fmt.Sprintf("%s · %.*f %% · %s", lost, digits, run.CPUPercent, perStatement(run))
}

// ratios compares sqlwitness with the others, at the highest rate at which both lost
// nothing.
func ratios(r Report) string {
	var parts []string
	for _, t := range r.Tools {
		if a, b, ok := bothWhole(r.of(Own), r.of(t.Name)); ok && t.Name != Own {
			parts = append(parts, fmt.Sprintf("%.2g × %s (at %s/s)", a.MicrosPerStatement/b.MicrosPerStatement, t.Name, thousands(int64(math.Round(a.Reached)))))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("CPU per statement of %s, at the highest rate at which neither lost any: %s.", Own, strings.Join(parts, ", "))
}

func bothWhole(own, other []Run) (a, b Run, ok bool) {
	for _, x := range own {
		for _, y := range other {
			if x.Rate == y.Rate && x.Lost == 0 && y.Lost == 0 && y.MicrosPerStatement > 0 {
				a, b, ok = x, y, true
			}
		}
	}
	return a, b, ok
}

func perStatement(run Run) string {
	if run.MicrosPerStatement == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", run.MicrosPerStatement)
}

// percent writes no zero for what is not nothing.
func percent(v float64) string {
	switch {
	case v == 0:
		return "0 %"
	case v < 0.01:
		return "<0.01 %"
	default:
		return fmt.Sprintf("%.2f %%", v)
	}
}

// share is a part in percent, rounded down, so that 100 % means all.
func share(part, whole int64) string {
	switch {
	case whole == 0:
		return "–"
	default:
		return fmt.Sprintf("%g %%", math.Floor(1000*float64(part)/float64(whole))/10)
	}
}

// users is how many of the statements have the right user, if the tool tells users.
func users(c Counts) string {
	if c.Users == 0 {
		return "–"
	}
	return share(c.User, c.Seen)
}

// thousands writes 5042 as 5,042.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ReplaceSection puts a new section in the place of the one that the program
// bench/cmd/NAME wrote before. Sections lie between two comments.
func ReplaceSection(text, name, section string) (string, error) {
	begin, end := "<!-- written by bench/cmd/"+name+"; do not edit -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends || strings.Contains(after, begin) {
		return "", fmt.Errorf("it has not exactly one section of bench/cmd/%s", name)
	}
	return before + begin + section + end + after, nil
}

// WriteSection does so in a file.
func WriteSection(path, name, section string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := ReplaceSection(string(text), name, section)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644)
}
