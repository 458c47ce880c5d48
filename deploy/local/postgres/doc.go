// Package postgres finds or starts the PostgreSQL server that a demo or a test
// runs on.
//
// Start takes the first of these that it can have:
//
//  1. the server at Options.URL, as it is;
//  2. server programs in Options.BinDir, and nothing else if that is given;
//  3. server programs in the usual folders, newest first, or on the PATH;
//  4. the download of the embedded-postgres library, if its repository answers
//     within seconds;
//  5. the package manager, as root or with Options.InstallPackages. Otherwise
//     the error is a *MissingError that holds the one line to run.
//
// From 2 on the server is a child process: it listens on a free port of
// 127.0.0.1 alone, asks for a random password, and ends with its parent.
// PostgreSQL refuses to run as root, so root's server runs as the account
// "postgres", or "nobody" where there is none.
package postgres
