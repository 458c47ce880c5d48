package demo

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"
)

// Result is what happened. Its JSON form is a contract.
type Result struct {
	Database string `json:"database"`
	Regions  int    `json:"regions"`
	Nodes    int    `json:"nodes"`

	// Acknowledged counts the Sets that were answered with success: Changed,
	// each change once, and Unchanged. Failed surely had no effect, Unknown may
	// have had one.
	Acknowledged int `json:"acknowledged"`
	Changed      int `json:"changed"`
	Unchanged    int `json:"unchanged"`
	Failed       int `json:"failed"`
	Unknown      int `json:"unknown"`
	// Forwarded is how many calls nodes sent on to other nodes and got
	// answered, by their own metrics, up to the end of the traffic.
	Forwarded int64 `json:"forwarded"`

	SetP50    float64 `json:"set_p50_ms"`
	SetP99    float64 `json:"set_p99_ms"`
	CountsP99 float64 `json:"counts_p99_ms"`

	VideosChecked int `json:"videos_checked"`
	// VideosDeleted were deleted by somebody meanwhile: nothing is shown of them,
	// and nothing compared.
	VideosDeleted int `json:"videos_deleted"`
	// Drift is Σ |shown − recount| over videos, likes, dislikes and the front
	// doors of every region.
	Drift int64 `json:"drift"`
	// Lost is how many keys do not read as they were acknowledged last.
	Lost int `json:"lost"`
	// BlindOffBy and ReadThenWriteOffBy are Σ |counted − recount| over the
	// videos of the traffic, for the two naive counters.
	BlindOffBy         int64 `json:"blind_counter_off_by"`
	ReadThenWriteOffBy int64 `json:"read_then_write_off_by"`

	// NaiveEvents is how many events each naive counter was told.
	NaiveEvents      int64   `json:"naive_events"`
	FirstCallSeconds float64 `json:"first_call_s"`
	DurationSeconds  float64 `json:"duration_s"`
	RTT              float64 `json:"rtt_ms"`
	Seed             uint64  `json:"seed"`

	// Details name what Drift and Lost count, a few of each.
	Details []string `json:"details,omitempty"`
}

// Right reports whether every promise held.
func (r Result) Right() bool { return r.Drift == 0 && r.Lost == 0 }

// Print writes the result for people.
func (r Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "\nWhat happened, in %s on %s:\n\n", time.Duration(r.DurationSeconds*float64(time.Second)).Round(time.Second), r.Database)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  acknowledged\t%s\t%s changed something, %s had nothing to change\n", grouped(r.Acknowledged), grouped(r.Changed), grouped(r.Unchanged))
	fmt.Fprintf(t, "  not acknowledged\t%s\t%s surely without effect, %s with an unknown outcome\n", grouped(r.Failed+r.Unknown), grouped(r.Failed), grouped(r.Unknown))
	if r.Unknown > 0 {
		fmt.Fprintf(t, "  \t\tunknown: no answer in time; it happened once or not at all\n")
	}
	fmt.Fprintf(t, "  forwarded\t%s\tcalls that one node sent on to another\n", grouped(r.Forwarded))
	fmt.Fprintf(t, "  latency\t%.1f ms\tmedian of a Set; 99 %%: %.1f ms; of a count: %.1f ms\n", r.SetP50, r.SetP99, r.CountsP99)
	fmt.Fprintf(t, "  lost\t%s\tkeys that do not read as they were acknowledged last\n", grouped(r.Lost))
	if r.VideosDeleted > 0 {
		fmt.Fprintf(t, "  deleted\t%s\tvideos, by somebody meanwhile, that show nothing and were left out\n", grouped(r.VideosDeleted))
	}
	fmt.Fprintln(t)
	fmt.Fprintf(t, "  Counter\toff by\tover %s videos\n", grouped(r.VideosChecked))
	fmt.Fprintf(t, "  Likewise\t%s\tdrift of what every node shows from a recount of the reactions\n", grouped(r.Drift))
	fmt.Fprintf(t, "  likes = likes + 1\t%s\ttold of %s events, duplicates and retries included\n", grouped(r.BlindOffBy), grouped(r.NaiveEvents))
	fmt.Fprintf(t, "  read, add, write\t%s\ttold of the same events\n", grouped(r.ReadThenWriteOffBy))
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	for _, line := range r.Details {
		fmt.Fprintf(w, "  WRONG: %s\n", line)
	}
	return nil
}

// grouped writes a number with a comma for every thousand.
func grouped[T ~int | ~int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func milliseconds(d time.Duration) float64 { return rounded(float64(d) / float64(time.Millisecond)) }

func seconds(d time.Duration) float64 { return rounded(d.Seconds()) }

func rounded(f float64) float64 { return math.Round(f*100) / 100 }
