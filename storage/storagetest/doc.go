// Package storagetest gives each test a database of its own on a real server.
//
// A test package calls [Main] from its TestMain. The first test that asks for a
// database starts the server: PostgreSQL without durability, which ends with
// the process and leaves no file; or the server that LIKEWISE_TEST_DATABASE_URL
// names. A test that cannot have a database fails; none is ever skipped.
//
// It is for tests only, and for tests outside package storage only
// (storage_test may use it), since it imports storage.
package storagetest
