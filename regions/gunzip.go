package regions

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// withGzip replaces Connect's gzip by one whose errors say what to send.
func withGzip() connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &gunzip{} },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) })
}

// gunzip reads gzip up to maxBody bytes of content, whatever they were
// compressed to.
type gunzip struct {
	reader gzip.Reader
	broken error // why src could not be begun
	left   int
}

func (g *gunzip) Reset(src io.Reader) error {
	g.left = maxBody
	g.broken = g.reader.Reset(src)
	return nil
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.broken != nil {
		return 0, gzipError(g.broken)
	}
	if len(p) > g.left+1 {
		p = p[:g.left+1]
	}
	n, err := g.reader.Read(p)
	switch {
	case n > g.left:
		return 0, tooLarge()
	case err == nil || err == io.EOF: //nolint:errorlint // an EOF inside is a broken stream
		g.left -= n
		return n, err
	default:
		return 0, gzipError(err)
	}
}

// gzipError keeps what was wrong with the source itself.
func gzipError(err error) *connect.Error {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own
	}
	return notGzip()
}

// Close has nothing to release: the reader is used again.
func (g *gunzip) Close() error { return nil }

func notGzip() *connect.Error {
	return connect.NewError(connect.CodeInvalidArgument, errors.New("the body is not gzip, although its encoding says so: compress it, or leave the encoding out"))
}
