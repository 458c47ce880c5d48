package main

import (
	"context"
	"fmt"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

type setCmd struct {
	Video    string `arg:"" help:"The video's id."`
	Reaction string `arg:"" enum:"LIKE,DISLIKE,NONE" help:"LIKE, DISLIKE, or NONE to take it back; in any case."`

	serverFlags
	userFlags
	Key    string `placeholder:"K" help:"Idempotency key: repeating the same set under it has one effect."`
	Expect *int64 `placeholder:"V" help:"Set only if the reaction has this version now; 0 means that there is none. Default: whatever it is."`
}

// check implements checker.
func (c *setCmd) check() error {
	var err error
	if c.Expect != nil && *c.Expect < 0 {
		err = wrongf("expect", "want a version, 0 or more, have %d", *c.Expect)
	}
	return gather(c.serverFlags.check(), err)
}

func (*setCmd) Help() string {
	return `Example, while a demo runs:
  likewise set cat LIKE --as alice --region eu
Example for another server:
  LIKEWISE_TOKEN=… likewise set cat NONE --addr https://likewise.example --ca ca.pem`
}

func (c *setCmd) Run(ctx context.Context, std streams) error {
	token, err := c.token(c.serverFlags)
	if err != nil {
		return err
	}
	reply, err := call(ctx, c.serverFlags, token, likewisev1connect.NewReactionServiceClient, &likewisev1.SetReactionRequest{
		VideoId:         c.Video,
		Reaction:        likewisev1.Reaction(likewisev1.Reaction_value[c.Reaction]),
		IdempotencyKey:  c.Key,
		ExpectedVersion: c.Expect,
	}, likewisev1connect.ReactionServiceClient.SetReaction)
	if err != nil {
		return err
	}
	if c.JSON {
		return printReply(std.out, reply)
	}
	fmt.Fprintln(std.out, setText(c.Video, reply))
	return nil
}

func setText(video string, reply *likewisev1.SetReactionResponse) string {
	text := fmt.Sprintf("%s: %s (was %s), version %d", video, reply.GetReaction(), reply.GetPreviousReaction(), reply.GetVersion())
	if !reply.GetChanged() {
		text = fmt.Sprintf("%s: %s already, version %d", video, reply.GetReaction(), reply.GetVersion())
	}
	if counts := reply.GetCounts(); counts != nil {
		text += "; " + countsText(counts)
	}
	return text
}
