package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/health/grpc_health_v1"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
)

const (
	// benchCallers is how many callers call at once, each on its own connection
	// where the protocol has one for each.
	benchCallers = 32
	// benchRounds is how often the whole table is measured, one round after the
	// other, so that a busy minute of the machine does not hit one row.
	benchRounds = 3
)

// cost is one cell of the table: a call in a protocol.
type cost struct {
	protocol, call string
	do             func(ctx context.Context, caller, turn int) error
}

// BenchmarkProtocols measures the CPU time that the server's process takes for
// one call, in each protocol, beside a call that does nothing. The lines "least"
// at its end hold the least of all rounds.
func BenchmarkProtocols(b *testing.B) {
	d := deploy(b, func(cfg *cluster.Config) { cfg.Regions, cfg.NodesPerRegion, cfg.Args = []string{"eu"}, 1, nil })
	costs := d.costs(b)
	least := map[string]float64{}
	for round := range benchRounds {
		for _, c := range costs {
			name := c.call + "/" + c.protocol
			b.Run(fmt.Sprintf("round %d/%s", round+1, name), func(b *testing.B) {
				spent := d.measure(b, c)
				if old, ok := least[name]; !ok || spent < old {
					least[name] = spent
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(least)) {
		b.Run("least/"+name, func(b *testing.B) { report(b, least[name]) })
	}
}

func report(b *testing.B, spent float64) {
	b.Helper()
	b.ReportMetric(spent, "server-µs/op")
	b.ReportMetric(0, "ns/op") // on a machine that both serves and calls it says little
}

// measure returns the server's microseconds for one call.
func (d *deployment) measure(b *testing.B, c cost) float64 {
	b.Helper()
	turn := 0
	burst := func() {
		g, ctx := errgroup.WithContext(b.Context())
		for caller := range benchCallers {
			g.Go(func() error { return c.do(ctx, caller, turn) })
		}
		require.NoError(b, g.Wait())
		turn++
	}
	burst() // connects
	before := d.cpu(b)
	for b.Loop() {
		burst()
	}
	spent := (d.cpu(b) - before) * 1e6 / float64(b.N*benchCallers)
	report(b, spent)
	return spent
}

// cpu returns the seconds of CPU time that the node has taken.
func (d *deployment) cpu(b *testing.B) float64 {
	b.Helper()
	seconds := d.metric(b.Context(), d.Nodes()[0], "process_cpu_seconds_total")
	require.Positive(b, seconds)
	return seconds
}

func (d *deployment) costs(b *testing.B) []cost {
	b.Helper()
	bearers := make([]string, benchCallers)
	for i := range bearers {
		bearers[i] = userToken(b, fmt.Sprintf("caller-%d", i))
	}
	reactions := []likewisev1.Reaction{like, dislike}
	calls := map[string]func(caller, turn int) call{
		"GetCounts": func(int, int) call { return call{request: &likewisev1.GetCountsRequest{VideoId: "bench"}} },
		"GetReaction": func(caller, _ int) call {
			return call{request: &likewisev1.GetReactionRequest{VideoId: "bench"}, bearer: bearers[caller]}
		},
		"SetReaction": func(caller, turn int) call {
			return call{request: &likewisev1.SetReactionRequest{VideoId: "bench", Reaction: reactions[turn%2]}, bearer: bearers[caller]}
		},
	}
	var costs []cost
	for _, s := range benchSpeakers(b) {
		if s.empty != nil {
			costs = append(costs, cost{s.name, "nothing", func(ctx context.Context, _, _ int) error { return s.empty(ctx, d.Nodes()[0]) }})
		}
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			costs = append(costs, cost{s.name, name, func(ctx context.Context, caller, turn int) error {
				if r := s.say(ctx, d.Nodes()[0], calls[name](caller, turn)); r.code != "" {
					return fmt.Errorf("%s: %s", r.code, r.text)
				}
				return nil
			}})
		}
	}
	return costs
}

// benchSpeaker can also call what does nothing. REST has no such path.
type benchSpeaker struct {
	speaker
	empty func(context.Context, *cluster.Node) error
}

func benchSpeakers(b *testing.B) []benchSpeaker {
	b.Helper()
	var all []benchSpeaker
	for _, s := range []struct {
		name    string
		http2   bool
		options []connect.ClientOption
	}{
		{"Connect JSON, HTTP/1.1", false, []connect.ClientOption{connect.WithProtoJSON()}},
		{"Connect binary, HTTP/1.1", false, nil},
		{"Connect binary, HTTP/2", true, nil},
		{"gRPC, HTTP/2", true, []connect.ClientOption{connect.WithGRPC()}},
		{"gRPC-Web, HTTP/1.1", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	} {
		all = append(all, benchSpeaker{connectSpeaker(b, s.name, s.http2, s.options...), healthOf(httpClient(b, s.http2), s.options...)})
	}
	rest := restSpeaker(b)
	rest.name = "REST, HTTP/1.1"
	return append(all, benchSpeaker{speaker: rest})
}

// healthOf asks for the health, which the server knows by heart.
func healthOf(client *http.Client, options ...connect.ClientOption) func(context.Context, *cluster.Node) error {
	return func(ctx context.Context, n *cluster.Node) error {
		check := connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](
			client, "http://"+n.Addr()+"/grpc.health.v1.Health/Check", options...)
		_, err := check.CallUnary(ctx, connect.NewRequest(&grpc_health_v1.HealthCheckRequest{}))
		return err
	}
}
