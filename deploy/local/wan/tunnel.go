package wan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pieceBytes is the most that travels as one piece.
	pieceBytes = 32 << 10
	// piecesInFlight bounds the memory of one direction of one connection at
	// 16 MiB: 300 MB/s at a round trip of 100 ms. Beyond it the sender waits,
	// as for a full TCP window.
	piecesInFlight = 512
)

// piece is data on its way. One without data is the end of the stream.
type piece struct {
	data []byte
	sent time.Time
}

// tunnel is one connection from a client in one region to a node in another.
type tunnel struct {
	out, back *link
	client    *net.TCPConn
	abort     context.CancelCauseFunc // closes both ends
	connected atomic.Bool
}

var errClientLeft = errors.New("the client left before it was connected")

// run connects and copies both ways until both directions have ended, or one
// has broken, or ctx ends.
func (t *tunnel) run(ctx context.Context, in io.Reader, target string) {
	outbound := make(chan piece, piecesInFlight)
	var halves sync.WaitGroup
	// From the start, to see a client leave that waits behind a cut.
	halves.Go(func() { t.abortOn(t.readClient(ctx, in, outbound)) })
	halves.Go(func() { t.abortOn(t.reach(ctx, target, outbound)) })
	halves.Wait()
}

// abortOn breaks both ends if a direction is broken.
func (t *tunnel) abortOn(err error) {
	if err != nil {
		t.abort(err)
	}
}

// reach connects to the far end and serves it to the end.
func (t *tunnel) reach(ctx context.Context, target string, outbound <-chan piece) error {
	node, err := t.connect(ctx, target)
	if err != nil {
		return err
	}
	defer node.Close()
	stop := context.AfterFunc(ctx, func() { hangUp(node) })
	defer stop()

	inbound := make(chan piece, piecesInFlight)
	var directions sync.WaitGroup
	directions.Go(func() { t.abortOn(deliver(ctx, t.out, outbound, node)) })
	directions.Go(func() { t.abortOn(send(ctx, node, inbound)) })
	directions.Go(func() { t.abortOn(deliver(ctx, t.back, inbound, t.client)) })
	directions.Wait()
	return nil
}

func (t *tunnel) readClient(ctx context.Context, in io.Reader, outbound chan<- piece) error {
	err := send(ctx, in, outbound)
	if err == nil && !t.connected.Load() {
		return errClientLeft
	}
	return err
}

// send reads src to its end and puts it on the way.
func send(ctx context.Context, src io.Reader, way chan<- piece) error {
	buf := make([]byte, pieceBytes)
	for {
		n, err := src.Read(buf)
		now := time.Now()
		if n > 0 {
			if err := put(ctx, way, piece{data: bytes.Clone(buf[:n]), sent: now}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return put(ctx, way, piece{sent: now})
		}
		if err != nil {
			return err
		}
	}
}

func put(ctx context.Context, way chan<- piece, p piece) error {
	select {
	case way <- p:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deliver writes what comes over a link to dst, each piece when it is due. The
// end of the stream is passed on as such: the other direction stays open.
func deliver(ctx context.Context, l *link, way <-chan piece, dst *net.TCPConn) error {
	for {
		var p piece
		select {
		case p = <-way:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := l.pass(ctx, p.sent); err != nil {
			return err
		}
		if p.data == nil {
			return dst.CloseWrite()
		}
		n, err := dst.Write(p.data)
		l.bytes.Add(int64(n))
		if err != nil {
			return err
		}
	}
}

// hangUp closes a connection so that its other end notices a failure and does
// not take it for the end of the stream.
func hangUp(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
