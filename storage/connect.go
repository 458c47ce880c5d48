package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ConnectReason says why a process cannot start on a database.
type ConnectReason int

// The reasons. Each is known from a SQLSTATE or from the type of an error.
const (
	// ReasonOther: the database said something else; see the error's text.
	ReasonOther ConnectReason = iota
	// ReasonUnreachable: no database answers at the address in time.
	ReasonUnreachable
	// ReasonStarting: a database answers there that does not take connections
	// yet, or not any more. It is worth trying again.
	ReasonStarting
	// ReasonTLS: the two do not agree on TLS, or the certificate is not valid.
	ReasonTLS
	// ReasonWrongPassword: the database does not let this user in: an unknown
	// user, a wrong password, or a rule for the address it comes from.
	ReasonWrongPassword
	// ReasonNoDatabase: the server holds no database of this name.
	ReasonNoDatabase
	// ReasonNoRights: the user may not do what is needed, to the database, to
	// its schema public or to a table.
	ReasonNoRights
	// ReasonTooManyConnections: the server, or the user's limit, is full.
	ReasonTooManyConnections
	// ReasonNotAWriter: it is a standby, or read-only.
	ReasonNotAWriter
)

// sentence is what an operator should know. It fits behind "the database at …".
func (r ConnectReason) sentence() string {
	switch r {
	case ReasonUnreachable:
		return "no database answers there"
	case ReasonStarting:
		return "it does not take connections at present"
	case ReasonTLS:
		return "no agreement on TLS"
	case ReasonWrongPassword:
		return "the user or the password was refused"
	case ReasonNoDatabase:
		return "there is no database of this name"
	case ReasonNoRights:
		return "the user lacks a right"
	case ReasonTooManyConnections:
		return "it has no connection left"
	case ReasonNotAWriter:
		return "it takes no writes: a standby, or read-only"
	default:
		return "it refused"
	}
}

// ConnectError means that a process cannot start on the database that it was
// told. Its text is one line, and holds neither the URL nor the password.
type ConnectError struct {
	Reason ConnectReason
	// Address, User and Database are what was tried. Address is host:port, or
	// several with commas.
	Address, User, Database string
	// Missing are the rights that ReasonNoRights is about, as far as they are
	// known: "INSERT on changes".
	Missing []string
	// Cause is what was met; nil where Missing says it. Its text is the driver's.
	Cause error
}

func (e *ConnectError) Error() string {
	text := fmt.Sprintf("the database %q at %s, as user %q: %s", e.Database, e.Address, e.User, e.Reason.sentence())
	if len(e.Missing) > 0 {
		return text + ": " + strings.Join(e.Missing, ", ")
	}
	if detail := causeText(e.Cause); detail != "" {
		text += ": " + detail
	}
	return text
}

func (e *ConnectError) Unwrap() error { return e.Cause }

// causeText is what may be said of a cause. The texts of the driver itself tell
// how it was configured; those of the server and of the network do not.
func causeText(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return oneLine(pgErr.Message) + " (SQLSTATE " + pgErr.Code + ")"
	}
	if verification, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return oneLine(verification.Error())
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return oneLine(dns.Error())
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return oneLine(op.Error())
	}
	return ""
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// reasonOf reads SQLSTATEs and the types of errors, never texts.
func reasonOf(err error) ConnectReason {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reasonOfState(pgErr.SQLState())
	}
	if isTLSError(err) {
		return ReasonTLS
	}
	if isNetworkError(err) {
		return ReasonUnreachable
	}
	return ReasonOther
}

func reasonOfState(state string) ConnectReason {
	switch state {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return ReasonWrongPassword
	case "3D000": // invalid_catalog_name
		return ReasonNoDatabase
	case "42501": // insufficient_privilege
		return ReasonNoRights
	case "53300": // too_many_connections
		return ReasonTooManyConnections
	case "25006": // read_only_sql_transaction
		return ReasonNotAWriter
	case "57P03": // cannot_connect_now
		return ReasonStarting
	default:
		return ReasonOther
	}
}

func isTLSError(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	return verification || authority || hostname || alert || header
}

func isNetworkError(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, dial := errors.AsType[*net.OpError](err)
	return network || dial || pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// target is what a Store was told to connect to.
type target struct {
	cfg *pgx.ConnConfig
}

// refused is a ConnectError about the target.
func (t target) refused(reason ConnectReason, cause error) *ConnectError {
	return &ConnectError{
		Reason: reason, Cause: cause,
		Address: t.address(), User: t.cfg.User, Database: t.cfg.Database,
	}
}

// address names every host that is tried, once.
func (t target) address() string {
	addrs := []string{joinHostPort(t.cfg.Host, t.cfg.Port)}
	for _, f := range t.cfg.Fallbacks {
		if addr := joinHostPort(f.Host, f.Port); !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return strings.Join(addrs, ",")
}

func joinHostPort(host string, port uint16) string {
	_, addr := pgconn.NetworkAddress(host, port)
	return addr
}

// explain says of an error met at start why it was met. What is neither of the
// target nor of its answer, such as a caller who gave up, it only wraps.
func (t target) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("connect to the database: %w", context.Cause(ctx))
	}
	reason := reasonOf(err)
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered && reason == ReasonOther {
		reason = ReasonUnreachable // what answers does not speak as a database does
		if t.demandsTLS() && t.refusesTLS(ctx) {
			reason = ReasonTLS
		}
	}
	return t.refused(reason, err)
}

// demandsTLS reports whether the client takes no connection without TLS.
func (t target) demandsTLS() bool {
	return t.cfg.TLSConfig != nil && !slices.ContainsFunc(t.cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// sslRequest is the message in which a client asks for TLS: its length, and the
// number that stands in place of a protocol version.
const sslRequest = 80877103

// refusesTLS asks the server for TLS once more: the driver has no type for its
// "no".
func (t target) refusesTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	network, addr := pgconn.NetworkAddress(t.cfg.Host, t.cfg.Port)
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return false
	}
	ask := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	answer := make([]byte, 1)
	if _, err := conn.Write(ask); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, answer)
	return err == nil && answer[0] == 'N'
}

// checkWriter connects, and asks the database whether it takes writes.
func (s *Store) checkWriter(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, connectTimeout+pingTimeout, errors.New("the database did not answer in time"))
	defer cancel()
	var readOnly string
	if err := s.writes.QueryRow(bounded, readOnlySQL).Scan(&readOnly); err != nil {
		return s.target.explain(ctx, err)
	}
	if readOnly != "off" {
		return s.target.refused(ReasonNotAWriter, nil)
	}
	return nil
}

// CheckRights reports whether the Store's user may do all that serving does, as
// a ConnectError that names what is missing. Where there are no tables yet it
// returns ErrNoSchema. Whoever only reads, as a check does, needs less.
func (s *Store) CheckRights(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	tables, rights := servingRights()
	rows, _ := s.writes.Query(bounded, missingRightsSQL, tables, rights) // CollectRows returns the error
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	switch {
	case isUndefinedTable(err):
		return ErrNoSchema
	case err != nil:
		return s.target.explain(ctx, err)
	case len(missing) > 0:
		refused := s.target.refused(ReasonNoRights, nil)
		refused.Missing = missing
		return refused
	default:
		return nil
	}
}

// servingRights lists what a serving process does to each table. To lock rows
// takes the right to update them.
func servingRights() (tables, rights []string) {
	for table, needs := range map[string][]string{
		"topology":       {"SELECT"},
		"nodes":          {"SELECT", "INSERT", "UPDATE"},
		"videos":         {"SELECT", "INSERT", "UPDATE"},
		"slots":          {"SELECT", "UPDATE"},
		"reactions":      {"SELECT", "INSERT", "UPDATE"},
		"counter_shards": {"SELECT", "INSERT", "UPDATE"},
		"changes":        {"SELECT", "INSERT"},
		"idempotency":    {"SELECT", "INSERT", "UPDATE"},
	} {
		for _, right := range needs {
			tables, rights = append(tables, table), append(rights, right)
		}
	}
	return tables, rights
}

// malformedURL reports whether a URL is surely not what was meant: a slash or
// an at sign that stands unescaped in a password moves the rest of it into the
// name of the database, where it would be shown.
func malformedURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return false // not a URL: key=value, or refused elsewhere
	}
	return strings.ContainsAny(strings.TrimPrefix(u.EscapedPath(), "/"), "/@")
}
