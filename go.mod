module sqlwitness

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/google/gopacket v1.1.19
	github.com/klauspost/compress v1.20.4
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.50.0
	golang.org/x/term v0.48.0
	golang.org/x/text v0.44.0
)

require filippo.io/edwards25519 v1.2.0 // indirect
