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
	Video string `arg:"" help:"The video's id."`

	serverFlags
	Token        string        `placeholder:"JWT" help:"A bearer token, where counts are private."`
	MaxStaleness time.Duration `placeholder:"DURATION" help:"Greatest age of the answer, such as 500ms; refused if it cannot be had so young. 0: whatever the server finds good."`
}

func (*countsCmd) Help() string {
	return `Answers from the node's cache, and says as of when: every write acknowledged before that is in.

Example, while a demo runs:
  likewise counts cat --region ap`
}

func (c *countsCmd) Run(ctx context.Context, std streams) error {
	req := &likewisev1.GetCountsRequest{VideoId: c.Video}
	if c.MaxStaleness > 0 {
		req.MaxStaleness = durationpb.New(c.MaxStaleness)
	}
	reply, err := call(ctx, c.serverFlags, c.token(), req, likewisev1connect.ReactionServiceClient.GetCounts)
	if err != nil {
		return err
	}
	if c.JSON {
		return printReply(std.out, reply)
	}
	fmt.Fprintf(std.out, "%s: %s\n", c.Video, countsText(reply.GetCounts()))
	return nil
}

// token is empty if none was given: most servers need none for counts.
func (c *countsCmd) token() string { return c.Token }
