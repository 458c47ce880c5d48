package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"likewise/regions"
	"likewise/routing"
	"likewise/storage"
)

// This file holds the words for what keeps a process from starting: what was
// met, and what to do about it, in one line that begins with the flag to look at.

// explain says why a node could not start or go on.
func (c *serveCmd) explain(err error) error {
	if taken, ok := errors.AsType[*routing.NameTakenError](err); ok {
		return wrongf("name", "%w: stop that one, or give this node a name of its own", taken)
	}
	if refused, ok := errors.AsType[*routing.SeedsRefusedError](err); ok {
		return disagreef([]string{"gossip-key", "join"}, "%s answered, and none could be joined: give every node the same --gossip-key, and in --join the addresses of their --gossip-listen", strings.Join(refused.Seeds, ", "))
	}
	if other, ok := errors.AsType[*routing.OtherTopologyError](err); ok {
		return disagreef([]string{"database-url", "join"}, "%w: give both the same database, or do not join that node", other)
	}
	if keys, ok := errors.AsType[*regions.KeysError](err); ok {
		return wrongf(keysFlag(keys.Field), "no keys from %s (%w): see to it that they can be had there, or name another place", keys.From, keys.Cause)
	}
	return explainDatabase("database-url", err)
}

func keysFlag(field string) string {
	if field == "Auth.JWKSFile" {
		return "jwks-file"
	}
	return "jwks-url"
}

// explainDatabase says why a database cannot be used; flag is the one that named
// it.
func explainDatabase(flag string, err error) error {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status
	}
	if errors.Is(err, storage.ErrNoSchema) {
		return wrongf(flag, "the database holds no Likewise yet: run \"likewise migrate --regions …\" on it, with all regions by name")
	}
	if connect, ok := errors.AsType[*storage.ConnectError](err); ok {
		return wrongf(flag, "%w; %s", connect, advice(connect))
	}
	if _, ok := errors.AsType[*flagError](err); ok || !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("stopped while it started")
}

// advice says what to do about a database that cannot be used.
func advice(err *storage.ConnectError) string {
	switch err.Reason {
	case storage.ReasonUnreachable:
		return "start it, or correct host and port"
	case storage.ReasonStarting:
		return "try again once it is up"
	case storage.ReasonTLS:
		return "correct sslmode and sslrootcert in the URL, or the server's certificate"
	case storage.ReasonWrongPassword:
		return "correct user and password, or what pg_hba.conf says of this host"
	case storage.ReasonNoDatabase:
		return fmt.Sprintf("create it (CREATE DATABASE %s), or correct the name", quoted(err.Database))
	case storage.ReasonNoRights:
		return grants(err)
	case storage.ReasonTooManyConnections:
		return "raise its max_connections or the user's limit, or give each node fewer by --commit-workers and --read-connections"
	case storage.ReasonNotAWriter:
		return "name the primary"
	default:
		return "see the database's own log"
	}
}

// grants says which statements give a user what is missing.
func grants(err *storage.ConnectError) string {
	user := quoted(err.User)
	if len(err.Missing) == 0 {
		return fmt.Sprintf("let its owner do it, or GRANT CREATE, CONNECT ON DATABASE %s TO %s and GRANT USAGE, CREATE ON SCHEMA public TO %s", quoted(err.Database), user, user)
	}
	return fmt.Sprintf("GRANT these TO %s", user)
}

// quoted is a name as SQL wants it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// explainListen says why an address cannot be listened on.
func explainListen(flag, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return wrongf(flag, "%s is in use: stop what listens there, or choose another port", addr)
	case errors.Is(err, syscall.EACCES):
		return wrongf(flag, "%s is not for this user: choose a port above 1023, or grant the right", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return wrongf(flag, "%s is no address of this machine: choose one that is, or 0.0.0.0", addr)
	default:
		return wrongf(flag, "%s cannot be listened on: %w", addr, err)
	}
}
