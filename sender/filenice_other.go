//go:build !linux

package sender

// beNice does nothing where priorities are those of the whole process.
func beNice() {}
