package traffic

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// TokenFunc returns a bearer token for a user.
type TokenFunc func(user string) (string, error)

// doors are the front doors of one region, used in turn. An attempt goes to one
// node; the next attempt goes to the next, so a node that is down costs an
// attempt and not an operation.
type doors struct {
	region  string
	clients []likewisev1connect.ReactionServiceClient
	turn    atomic.Uint64
	tokens  *tokens
}

// Dial returns a client for the server at addr, a host:port. Replies are not
// compressed: on loopback it costs more than it saves.
func Dial(client connect.HTTPClient, addr string) likewisev1connect.ReactionServiceClient {
	return likewisev1connect.NewReactionServiceClient(client, "http://"+addr,
		connect.WithAcceptCompression("gzip", nil, nil))
}

// newTransport keeps one idle HTTP/1.1 connection for each client: that is
// cheaper per call than HTTP/2, and a broken connection concerns one call.
func newTransport(clients int) *http.Transport {
	return &http.Transport{
		MaxIdleConns:        0, // bounded per host
		MaxIdleConnsPerHost: 4 * clients,
		DisableCompression:  true,
	}
}

func newDoors(region Region, client connect.HTTPClient, tokens *tokens) *doors {
	d := &doors{region: region.Name, tokens: tokens}
	for _, addr := range region.Addrs {
		d.clients = append(d.clients, Dial(client, addr))
	}
	return d
}

func (d *doors) next() likewisev1connect.ReactionServiceClient {
	return d.clients[d.turn.Add(1)%uint64(len(d.clients))]
}

func (d *doors) set(ctx context.Context, user string, req *likewisev1.SetReactionRequest) (*likewisev1.SetReactionResponse, error) {
	ctx, err := d.tokens.attach(ctx, user)
	if err != nil {
		return nil, err
	}
	return d.next().SetReaction(ctx, req)
}

func (d *doors) get(ctx context.Context, user string, req *likewisev1.GetReactionRequest) (*likewisev1.GetReactionResponse, error) {
	ctx, err := d.tokens.attach(ctx, user)
	if err != nil {
		return nil, err
	}
	return d.next().GetReaction(ctx, req)
}

func (d *doors) counts(ctx context.Context, user string, req *likewisev1.GetCountsRequest) (*likewisev1.GetCountsResponse, error) {
	ctx, err := d.tokens.attach(ctx, user)
	if err != nil {
		return nil, err
	}
	return d.next().GetCounts(ctx, req)
}

// tokens mints one token for each user and keeps it.
type tokens struct {
	mint TokenFunc

	mu     sync.Mutex
	byUser map[string]string // guarded by mu
}

func newTokens(mint TokenFunc) *tokens {
	return &tokens{mint: mint, byUser: make(map[string]string)}
}

func (t *tokens) of(user string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token, ok := t.byUser[user]; ok {
		return token, nil
	}
	token, err := t.mint(user)
	if err != nil {
		return "", fmt.Errorf("minting a token for %q: %w", user, err)
	}
	t.byUser[user] = token
	return token, nil
}

func (t *tokens) attach(ctx context.Context, user string) (context.Context, error) {
	token, err := t.of(user)
	if err != nil {
		return nil, err
	}
	return WithToken(ctx, token), nil
}

// WithToken returns a context for one call, which carries token as bearer token
// unless it is empty.
func WithToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	return ctx
}
