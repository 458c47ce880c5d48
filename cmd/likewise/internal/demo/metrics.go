package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// forwardedMetric counts the calls that a node sent to another, by outcome.
const forwardedMetric = "likewise_regions_forwarded_total"

// scrapeTimeout bounds reading one node's metrics.
const scrapeTimeout = 5 * time.Second

// forwarded sums, over all nodes, the calls that were served by another node
// than the one that was asked.
func (s *stage) forwarded(ctx context.Context) (int64, error) {
	var sum int64
	for _, region := range s.regions() {
		for _, addr := range region.Addrs {
			n, err := scrapeForwarded(ctx, s.client, addr)
			if err != nil {
				return 0, fmt.Errorf("reading the metrics of %s: %w", addr, err)
			}
			sum += n
		}
	}
	return sum, nil
}

func scrapeForwarded(ctx context.Context, client *http.Client, addr string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", resp.Status)
	}
	return sumServed(resp.Body)
}

// sumServed adds up the samples of forwardedMetric that were served, from the
// Prometheus text format: a line is name, labels in braces, a blank, a number.
func sumServed(r io.Reader) (int64, error) {
	var sum float64
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), forwardedMetric+"{")
		if !ok || !strings.Contains(labels, `outcome="served"`) {
			continue
		}
		_, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("sample %q: %w", lines.Text(), err)
		}
		sum += n
	}
	return int64(sum), lines.Err()
}
