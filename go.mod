module likewise

go 1.26.0

require (
	buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.2 // the rules in our .proto files, as Go
	buf.build/go/protovalidate v1.4.0 // spells the fields that break rules
	connectrpc.com/connect v1.21.1 // RPC: Connect and gRPC on one port, over net/http
	connectrpc.com/cors v0.1.0 // the headers that Connect, gRPC and gRPC-Web need across origins
	connectrpc.com/grpchealth v1.5.0 // the standard health service
	connectrpc.com/grpcreflect v1.3.1 // reflection, so that grpcurl needs no .proto
	connectrpc.com/validate v0.9.0 // checks requests by the rules in the .proto files
	connectrpc.com/vanguard v0.4.0 // REST: paths and JSON to the RPCs that the protos annotate
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // percentiles of the traffic in bounded memory
	github.com/MicahParks/jwkset v0.11.4 // reads JSON Web Key Sets
	github.com/alecthomas/kong v1.17.0 // the command line: a struct is its documentation
	github.com/anishathalye/porcupine v1.3.1 // tests: checks that a history is linearizable
	github.com/cenkalti/backoff/v5 v5.0.3 // waits between retries, with jitter
	github.com/cockroachdb/cockroach-go/v2 v2.4.2 // drives the retry loop by the database's own error classes
	github.com/fergusstrange/embedded-postgres v1.34.0 // fetches PostgreSQL for the demo where no package is installed
	github.com/golang-jwt/jwt/v5 v5.3.1 // verifies bearer tokens
	github.com/google/uuid v1.6.0 // ids of attempts, in the type that the database has
	github.com/hashicorp/memberlist v0.7.0 // gossip: who is alive, encrypted
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL and CockroachDB, with pipelined batches
	github.com/maypok86/otter/v2 v2.4.0 // a bounded cache without a lock
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/rs/cors v1.11.1 // answers browsers from other origins
	github.com/stretchr/testify v1.12.1 // tests: require
	go.uber.org/goleak v1.3.0 // tests: no goroutine is left behind
	go.uber.org/zap v1.28.0 // structured logs
	golang.org/x/sync v0.25.0 // errgroup: Run returns when all it started has ended
	golang.org/x/term v0.48.0 // the demo's live line, only where there is a terminal
	golang.org/x/time v0.16.0 // bounds the rate of traffic and of repeated log lines
	google.golang.org/genproto/googleapis/api v0.0.0-20261110000943-09e21b237f2c // the HTTP annotations in our .proto files, as Go
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261104224025-d1e00e9f33ab // the form in which vanguard writes errors
	google.golang.org/grpc v1.85.0 // tests: a gRPC client that is not ours
	google.golang.org/protobuf v1.36.12 // the wire format, and the generated code
	gopkg.in/yaml.v3 v3.0.1 // reads the file of flags, and knows the line of each
	pgregory.net/rapid v1.3.0 // tests: laws as properties, with shrinking
)

require (
	cel.dev/cel-go v0.32.0 // indirect
	cel.dev/expr v0.25.3 // indirect
	connectrpc.com/connect/v2 v2.0.0 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-metrics v0.7.0 // indirect
	github.com/hashicorp/go-msgpack/v2 v2.1.5 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/hashicorp/go-sockaddr v1.0.7 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/lib/pq v1.10.9 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/sean-/seed v0.0.0-20170313163322-e2103e2c3529 // indirect
	github.com/xi2/xz v0.0.0-20171230120015-48954b6210f8 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp v0.0.0-20260820142414-ca536658362e // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

tool (
	connectrpc.com/connect/cmd/protoc-gen-connect-go
	google.golang.org/protobuf/cmd/protoc-gen-go
)
