package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"likewise/routing"
	"likewise/storage"
)

type migrateCmd struct {
	DatabaseURL string   `required:"" placeholder:"URL" help:"The writer's database: postgres://user:password@host:port/name."`
	Regions     []string `required:"" placeholder:"R" help:"The regions, by name. On a new database each becomes the home of an equal, contiguous range of the 256 slots; where there is a topology already, it stays."`
}

func (*migrateCmd) Help() string {
	return `Creates what is missing and leaves what is there: running it again, or from several machines at once, does no harm.

Example:
  likewise migrate --database-url postgres://likewise@db/likewise --regions eu,us,ap`
}

// Validate is called by kong.
func (c *migrateCmd) Validate() error {
	_, err := contiguous(c.Regions)
	return err
}

func (c *migrateCmd) Run(ctx context.Context, std streams) error {
	store, err := storage.Open(ctx, storage.Config{URL: c.DatabaseURL})
	if err != nil {
		return err
	}
	defer store.Close()
	topology, err := migrate(ctx, store, c.Regions)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "schema is up to date; topology epoch %d: %v\n", topology.Epoch, topology.Regions())
	return nil
}

// migrate prepares the database and returns the topology that it holds then,
// which may be older and other than regions.
func migrate(ctx context.Context, store *storage.Store, regions []string) (routing.Topology, error) {
	homes, err := contiguous(regions)
	if err != nil {
		return routing.Topology{}, err
	}
	if err := store.Migrate(ctx, homes); err != nil {
		return routing.Topology{}, err
	}
	topology, err := readTopology(ctx, store)
	if err != nil {
		return routing.Topology{}, err
	}
	if have := topology.Regions(); !sameRegions(have, regions) {
		return routing.Topology{}, usageErrorf("--regions: this database serves the regions %v, which stay as they are: name those, or take another database", have)
	}
	return topology, nil
}

// sameRegions reports whether both name the same regions, in any order.
func sameRegions(have []routing.Region, want []string) bool {
	if len(have) != len(want) {
		return false
	}
	for _, name := range want {
		if !slices.Contains(have, routing.Region(strings.TrimSpace(name))) {
			return false
		}
	}
	return true
}

// contiguous gives each region a range of slots.
func contiguous(regions []string) ([storage.Slots]string, error) {
	var named []routing.Region
	for _, name := range regions {
		region := routing.Region(strings.TrimSpace(name))
		if slices.Contains(named, region) {
			return [storage.Slots]string{}, fmt.Errorf("--regions: %q is named twice", region)
		}
		named = append(named, region)
	}
	homes := routing.Contiguous(named)
	if _, err := routing.NewTopology(1, homes); err != nil {
		return [storage.Slots]string{}, fmt.Errorf("--regions: %w", err)
	}
	return slotNames(homes), nil
}

func slotNames(homes [routing.Slots]routing.Region) [storage.Slots]string {
	var names [storage.Slots]string
	for slot, region := range homes {
		names[slot] = string(region)
	}
	return names
}

// readTopology reads the database's topology in the terms of routing.
func readTopology(ctx context.Context, store *storage.Store) (routing.Topology, error) {
	stored, err := store.Topology(ctx)
	if errors.Is(err, storage.ErrNoSchema) {
		return routing.Topology{}, fmt.Errorf("%w: run \"likewise migrate --regions …\" first", err)
	}
	if err != nil {
		return routing.Topology{}, err
	}
	var homes [routing.Slots]routing.Region
	for slot, region := range stored.Regions {
		homes[slot] = routing.Region(region)
	}
	return routing.NewTopology(stored.Epoch, homes)
}
