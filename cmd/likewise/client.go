package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"likewise/cmd/likewise/internal/demo"
	"likewise/e2e/traffic"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/regions"
)

// callTimeout bounds one call of a client command.
const callTimeout = 10 * time.Second

// serverFlags say whom a client command talks to.
type serverFlags struct {
	Addr   string `placeholder:"ADDR" help:"A node: host:port, or https://host:port for one that speaks TLS. Default: a node of the running demo."`
	CA     string `name:"ca" placeholder:"FILE" type:"path" help:"PEM certificates of the CA that signed an https:// node's. Default: those that this machine trusts."`
	Region string `placeholder:"R" help:"Which region of the running demo to ask. Default: its first."`
	JSON   bool   `name:"json" help:"Print the reply as JSON."`
}

// userFlags say who speaks.
type userFlags struct {
	As    string `placeholder:"USER" help:"Who speaks. Needed for the running demo, whose tokens are minted on the spot."`
	Token string `placeholder:"JWT" help:"The user's bearer token, for a server that is no demo. Better given in the environment."`
}

// check implements checker.
func (f serverFlags) check() error {
	var errs []error
	if f.Addr != "" && f.Region != "" {
		errs = append(errs, disagreef([]string{"region", "addr"}, "chooses a region of the running demo: with --addr leave it out"))
	}
	if _, err := baseURL(f.Addr); f.Addr != "" && err != nil {
		errs = append(errs, err)
	}
	return gather(append(errs, checkCA(f.CA, f.Addr))...)
}

// checkCA refuses a CA for calls that are not by TLS.
func checkCA(ca string, addrs ...string) error {
	if ca == "" || slices.ContainsFunc(addrs, func(addr string) bool { return strings.HasPrefix(addr, "https://") }) {
		return nil
	}
	return disagreef([]string{"ca", "addr"}, "means something for a node that speaks TLS only: give --addr https://host:port")
}

// baseURL returns http://host:port or https://host:port.
func baseURL(addr string) (string, error) {
	text := strings.TrimSuffix(addr, "/")
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || text != u.Scheme+"://"+u.Host {
		return "", wrongf("addr", "want host:port, http://host:port or https://host:port")
	}
	if _, ok := portOf(u.Host); !ok && u.Scheme == "http" {
		return "", wrongf("addr", "want a port, such as %s:8080", u.Host)
	}
	return text, nil
}

// url returns where to call.
func (f serverFlags) url() (string, error) {
	if f.Addr != "" {
		return baseURL(f.Addr)
	}
	state, err := demo.ReadState()
	if err != nil {
		return "", err
	}
	var names []string
	for _, region := range state.Regions {
		if (f.Region == "" || f.Region == region.Name) && len(region.Addrs) > 0 {
			return baseURL(region.Addrs[0])
		}
		names = append(names, region.Name)
	}
	return "", usage(wrongf("region", "the demo has no region %q: it has %s", f.Region, strings.Join(names, ", ")))
}

// token returns the bearer token to send.
func (u userFlags) token(server serverFlags) (string, error) {
	switch {
	case u.Token != "" && u.As != "":
		return "", usage(disagreef([]string{"as", "token"}, "exclude each other: a token says itself who speaks"))
	case u.Token != "":
		return u.Token, nil
	case server.Addr != "":
		return "", usage(wrongf("token", "is missing: --addr needs it; a node with --dev-secret takes what \"likewise token --user U --dev-secret\" prints"))
	case u.As == "":
		return "", usage(wrongf("as", "is missing: say who speaks, such as --as alice"))
	default:
		return mint("as", regions.Claims{Subject: u.As}, time.Hour)
	}
}

// newTransport calls nodes by TLS where their URL says so, and trusts the CA.
func newTransport(ca string) (*http.Transport, error) {
	pool, err := readAuthority(ca)
	if err != nil {
		return nil, usage(err)
	}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}, nil
}

// service makes a client of one of the services at a base URL.
type service[Client any] func(connect.HTTPClient, string, ...connect.ClientOption) Client

// call connects, calls and returns the reply, or an error that says what to do.
func call[Client, Req, Resp any](ctx context.Context, server serverFlags, token string, to service[Client], req Req,
	method func(Client, context.Context, Req) (Resp, error),
) (Resp, error) {
	var none Resp
	base, err := server.url()
	if err != nil {
		return none, err
	}
	transport, err := newTransport(server.CA)
	if err != nil {
		return none, err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := to(&http.Client{Transport: transport}, base)
	reply, err := method(client, traffic.WithToken(ctx, token), req)
	if err != nil {
		return none, explain(base, err)
	}
	return reply, nil
}

// explain says for people what an error of a call means, and gives it an exit
// status: refused, or not reached.
func explain(base string, err error) error {
	wire, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsWireError(err) {
		return explainUnreached(base, err)
	}
	said := fmt.Errorf("%s: %s%s", wire.Code(), wire.Message(), detailText(wire))
	return &statusError{statusOfCode(wire.Code()), said}
}

// statusOfCode tells what was refused from what could not be done.
func statusOfCode(code connect.Code) int {
	switch code {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeInternal, connect.CodeUnknown:
		return statusCannot
	default:
		return statusNo
	}
}

// statusOfName is statusOfCode for a code's name.
func statusOfName(name string) int {
	code := connect.CodeUnknown
	if err := code.UnmarshalText([]byte(name)); err != nil {
		return statusCannot
	}
	return statusOfCode(code)
}

// explainUnreached says why no answer of a node came.
func explainUnreached(base string, err error) error {
	_, foreign := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	plain = plain || errors.Is(err, http.ErrSchemeMismatch)
	switch {
	case foreign:
		return wrongf("ca", "%s has a certificate of a CA that is not trusted here: give that CA's certificate", base)
	case other:
		return wrongf("addr", "%s has a certificate for another name: call it by a name that is in it", base)
	case plain:
		return wrongf("addr", "%s does not speak TLS: call it by http://", base)
	case errors.Is(err, context.DeadlineExceeded):
		return wrongf("addr", "%s does not answer within %s: is it up?", base, callTimeout)
	default:
		return wrongf("addr", "%s does not answer as a node of Likewise: is it up, and does it speak http or https? %w", base, err)
	}
}

// detailText shows the details that a person can act on.
func detailText(refused *connect.Error) string {
	var text strings.Builder
	for _, d := range refused.Details() {
		msg, err := d.Value()
		if err != nil {
			continue // a newer server's detail
		}
		switch m := msg.(type) {
		case *likewisev1.VersionMismatch:
			fmt.Fprintf(&text, "; it is %s at version %d", m.GetReaction(), m.GetVersion())
		case *likewisev1.VideoNotActive:
			if refused.Code() != connect.CodeNotFound { // else the message says so
				fmt.Fprintf(&text, "; the video is %s", m.GetState())
			}
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
