package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"likewise/cmd/likewise/internal/demo"
	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// callTimeout bounds one call of a client command.
const callTimeout = 10 * time.Second

// serverFlags say whom a client command talks to.
type serverFlags struct {
	Addr   string `placeholder:"ADDR" help:"host:port of a node. Default: a node of the running demo."`
	Region string `placeholder:"R" help:"Which region of the running demo to ask. Default: its first."`
	JSON   bool   `name:"json" help:"Print the reply as JSON."`
}

// userFlags say who speaks.
type userFlags struct {
	As    string `placeholder:"USER" help:"Who speaks. Needed for the running demo, whose tokens are minted on the spot."`
	Token string `placeholder:"JWT" help:"The user's bearer token, for a server that is no demo."`
}

// Validate is called by kong.
func (f serverFlags) Validate() error {
	if f.Addr != "" && f.Region != "" {
		return errors.New("--region chooses a region of the running demo; with --addr leave it out")
	}
	return nil
}

// addr returns where to call.
func (f serverFlags) addr() (string, error) {
	if f.Addr != "" {
		return strings.TrimSuffix(strings.TrimPrefix(f.Addr, "http://"), "/"), nil
	}
	state, err := demo.ReadState()
	if err != nil {
		return "", err
	}
	var names []string
	for _, region := range state.Regions {
		if (f.Region == "" || f.Region == region.Name) && len(region.Addrs) > 0 {
			return region.Addrs[0], nil
		}
		names = append(names, region.Name)
	}
	return "", usageErrorf("--region: the demo has no region %q: it has %s", f.Region, strings.Join(names, ", "))
}

// token returns the bearer token to send.
func (u userFlags) token(server serverFlags) (string, error) {
	switch {
	case u.Token != "":
		return u.Token, nil
	case server.Addr != "":
		return "", usageErrorf("--token: is needed with --addr: a node with --dev-secret takes what \"likewise token --user U --dev-secret\" prints")
	case u.As == "":
		return "", usageErrorf("--as: say who speaks, such as --as alice")
	default:
		return mintToken(u.As, time.Hour)
	}
}

// call connects, calls and returns the reply, or an error that says what to do.
func call[Req, Resp any](ctx context.Context, server serverFlags, token string, req Req,
	method func(likewisev1connect.ReactionServiceClient, context.Context, Req) (Resp, error),
) (Resp, error) {
	var none Resp
	addr, err := server.addr()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if token != "" {
		ctx = traffic.WithToken(ctx, token)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	reply, err := method(traffic.Dial(&http.Client{Transport: transport}, addr), ctx, req)
	if err != nil {
		return none, explain(addr, err)
	}
	return reply, nil
}

// explain says for people what an error of a call means, and gives it an exit
// status: refused, or not reached.
func explain(addr string, err error) error {
	wire, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsWireError(err) {
		return fmt.Errorf("%s does not answer; is it up? %w", addr, err)
	}
	said := fmt.Errorf("%s: %s%s", wire.Code(), wire.Message(), detailText(wire))
	switch wire.Code() {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeInternal, connect.CodeUnknown:
		return said
	default:
		return &statusError{statusNo, said}
	}
}

// detailText shows the details that a person can act on.
func detailText(err *connect.Error) string {
	var text strings.Builder
	for _, d := range err.Details() {
		msg, err := d.Value()
		if err != nil {
			continue // a newer server's detail
		}
		switch m := msg.(type) {
		case *likewisev1.VersionMismatch:
			fmt.Fprintf(&text, "; it is %s at version %d", m.GetReaction(), m.GetVersion())
		case *likewisev1.VideoNotActive:
			fmt.Fprintf(&text, "; the video is %s", m.GetState())
		case *likewisev1.OutcomeUnknown:
			text.WriteString("; the write may or may not have happened: repeat it with the same --key")
		case *likewisev1.RetryAfter:
			fmt.Fprintf(&text, "; try again in %s", m.GetDelay().AsDuration())
		}
	}
	return text.String()
}

// printReply prints a reply as indented JSON, zero values included.
func printReply(w io.Writer, reply proto.Message) error {
	raw, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding the reply: %w", err)
	}
	return printJSON(w, json.RawMessage(raw))
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// countsText shows counts with their age. The age is by this machine's clock
// and only for people.
func countsText(c *likewisev1.Counts) string {
	return fmt.Sprintf("%d likes, %d dislikes, as of %s",
		c.GetLikes(), c.GetDislikes(), c.GetAsOf().AsTime().Local().Format("15:04:05.000"))
}
