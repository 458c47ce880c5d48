package main

import (
	"context"
	"fmt"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

type getCmd struct {
	Video string `arg:"" help:"The video's id."`

	serverFlags
	userFlags
}

func (*getCmd) Help() string {
	return `Never older than the user's last acknowledged write, whatever region is asked.

Example, while a demo runs:
  likewise get cat --as alice`
}

func (c *getCmd) Run(ctx context.Context, std streams) error {
	token, err := c.token(c.serverFlags)
	if err != nil {
		return err
	}
	reply, err := call(ctx, c.serverFlags, token, likewisev1connect.NewReactionServiceClient, &likewisev1.GetReactionRequest{VideoId: c.Video},
		likewisev1connect.ReactionServiceClient.GetReaction)
	if err != nil {
		return err
	}
	if c.JSON {
		return printReply(std.out, reply)
	}
	fmt.Fprintf(std.out, "%s: %s, version %d\n", c.Video, reply.GetReaction(), reply.GetVersion())
	return nil
}
