package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
	"likewise/regions"
)

type videoCmd struct {
	Video string `arg:"" help:"The video's id."`
	State string `arg:"" enum:"active,disabled,deleted" help:"active: takes reactions. disabled: takes none and shows those that it has. deleted: takes none and shows none."`

	serverFlags
	Token string `placeholder:"JWT" help:"A bearer token with the scope likewise:admin, for a server that is no demo. Better given in the environment."`
}

func (*videoCmd) Help() string {
	return `Once it has answered, no node of any region takes a reaction that the state forbids. A deleted video comes back by active, with the reactions that it had, for as long as they were not cleaned up.

Example, while a demo runs:
  likewise video cat disabled
Example for another server:
  LIKEWISE_TOKEN=… likewise video cat deleted --addr https://likewise.example`
}

func (c *videoCmd) Run(ctx context.Context, std streams) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	reply, err := call(ctx, c.serverFlags, token, likewisev1connect.NewAdminServiceClient, &likewisev1.SetVideoStateRequest{
		VideoId: c.Video,
		State:   likewisev1.VideoState(likewisev1.VideoState_value[strings.ToUpper(c.State)]),
	}, likewisev1connect.AdminServiceClient.SetVideoState)
	if err != nil {
		return err
	}
	if c.JSON {
		return printReply(std.out, reply)
	}
	fmt.Fprintln(std.out, stateText(c.Video, reply))
	return nil
}

// token returns the bearer token to send: that of an administrator.
func (c *videoCmd) token() (string, error) {
	switch {
	case c.Token != "":
		return c.Token, nil
	case c.Addr != "":
		return "", usage(wrongf("token", "is missing: --addr needs one with the scope %s; a node with --dev-secret takes what \"likewise token --scope %s --dev-secret\" prints", regions.ScopeAdmin, regions.ScopeAdmin))
	default:
		return mint("token", regions.Claims{Scopes: []string{regions.ScopeAdmin}}, time.Hour)
	}
}

func stateText(video string, reply *likewisev1.SetVideoStateResponse) string {
	if !reply.GetChanged() {
		return fmt.Sprintf("%s: %s already", video, reply.GetState())
	}
	return fmt.Sprintf("%s: %s (was %s)", video, reply.GetState(), reply.GetPreviousState())
}
