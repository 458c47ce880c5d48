package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

type countsCmd struct {
	Videos []string `arg:"" name:"video" help:"Ids of 1 to 100 videos."`

	serverFlags
	Token        string        `placeholder:"JWT" help:"A bearer token, where counts are private."`
	MaxStaleness time.Duration `placeholder:"DURATION" help:"Greatest age of the answer, such as 500ms; refused if it cannot be had so young. 0: whatever the server finds good."`
}

func (*countsCmd) Help() string {
	return `Answers from the node's cache, and says as of when: every write acknowledged before that is in. Several videos are asked for in one call, and each has an outcome of its own.

Examples, while a demo runs:
  likewise counts cat --region ap
  likewise counts cat dog bird`
}

// maxBatch is how many videos a node takes in one call.
const maxBatch = 100

// check implements checker.
func (c *countsCmd) check() error {
	var errs []error
	if n := len(c.Videos); n > maxBatch {
		errs = append(errs, fmt.Errorf("<video>: want 1 to %d, have %d: ask in several calls", maxBatch, n))
	}
	return gather(append(errs, c.serverFlags.check(), notNegative("max-staleness", c.MaxStaleness))...)
}

func (c *countsCmd) Run(ctx context.Context, std streams) error {
	if len(c.Videos) > 1 {
		return c.batch(ctx, std)
	}
	req := &likewisev1.GetCountsRequest{VideoId: c.Videos[0], MaxStaleness: c.maxStaleness()}
	reply, err := call(ctx, c.serverFlags, c.Token, likewisev1connect.NewReactionServiceClient, req,
		likewisev1connect.ReactionServiceClient.GetCounts)
	if err != nil {
		return err
	}
	if c.JSON {
		return printReply(std.out, reply)
	}
	fmt.Fprintf(std.out, "%s: %s\n", req.GetVideoId(), countsText(reply.GetCounts()))
	return nil
}

func (c *countsCmd) batch(ctx context.Context, std streams) error {
	req := &likewisev1.BatchGetCountsRequest{VideoIds: c.Videos, MaxStaleness: c.maxStaleness()}
	reply, err := call(ctx, c.serverFlags, c.Token, likewisev1connect.NewReactionServiceClient, req,
		likewisev1connect.ReactionServiceClient.BatchGetCounts)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printReply(std.out, reply); err != nil {
			return err
		}
		return failedItems(reply)
	}
	for _, outcome := range reply.GetOutcomes() {
		text := countsText(outcome.GetCounts())
		if failed := outcome.GetError(); failed != nil {
			text = fmt.Sprintf("%s: %s", failed.GetCode(), failed.GetMessage())
		}
		fmt.Fprintf(std.out, "%s: %s\n", outcome.GetVideoId(), text)
	}
	return failedItems(reply)
}

// failedItems is an error if there is one in a batch. Its status is that of the
// worst one.
func failedItems(reply *likewisev1.BatchGetCountsResponse) error {
	failed, status := 0, statusOK
	for _, outcome := range reply.GetOutcomes() {
		if item := outcome.GetError(); item != nil {
			failed++
			status = max(status, statusOfName(item.GetCode()))
		}
	}
	if failed == 0 {
		return nil
	}
	return &statusError{status, fmt.Errorf("%d of %d videos have no counts: see above", failed, len(reply.GetOutcomes()))}
}

// maxStaleness is nil if the caller gave none.
func (c *countsCmd) maxStaleness() *durationpb.Duration {
	if c.MaxStaleness == 0 {
		return nil
	}
	return durationpb.New(c.MaxStaleness)
}
