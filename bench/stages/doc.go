// Package stages measures the pipeline one stage at a time, on a capture of point
// selects that it makes itself: what each stage adds is visible.
package stages
