package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"likewise/routing"
	"likewise/storage"
)

type migrateCmd struct {
	DatabaseURL string   `required:"" placeholder:"URL" help:"The writer's database: postgres://user:password@host:port/name."`
	Regions     []string `required:"" placeholder:"R" help:"The regions, by name. On a new database each becomes the home of an equal, contiguous range of the 256 slots; where there is a topology already, it stays."`
	JSON        bool     `name:"json" help:"Print the topology as JSON: epoch and regions."`
}

func (*migrateCmd) Help() string {
	return `Creates what is missing and leaves what is there: running it again, or from several machines at once, does no harm.

Example:
  likewise migrate --database-url postgres://likewise@db/likewise --regions eu,us,ap`
}

// check implements checker.
func (c *migrateCmd) check() error {
	_, err := checkRegions(c.Regions)
	return gather(checkDatabase("database-url", c.DatabaseURL), err)
}

func (c *migrateCmd) Run(ctx context.Context, std streams) error {
	topology, err := c.migrate(ctx)
	if err != nil {
		return explainDatabase("database-url", err)
	}
	if c.JSON {
		return printJSON(std.out, map[string]any{"epoch": topology.Epoch, "regions": topology.Regions()})
	}
	fmt.Fprintf(std.out, "schema is up to date; topology epoch %d: %v\n", topology.Epoch, topology.Regions())
	return nil
}

func (c *migrateCmd) migrate(ctx context.Context) (routing.Topology, error) {
	store, err := storage.Open(ctx, storage.Config{URL: c.DatabaseURL})
	if err != nil {
		return routing.Topology{}, err
	}
	defer store.Close()
	topology, err := migrate(ctx, store, c.Regions)
	if err == nil && !sameRegions(topology, c.Regions) {
		err = usage(disagreef([]string{"regions", "database-url"}, "this database serves the regions %s, which stay as they are: name those, or another database", names(topology)))
	}
	return topology, err
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
	return readTopology(ctx, store)
}

// sameRegions reports whether a topology has these regions, in any order.
func sameRegions(topology routing.Topology, want []string) bool {
	have := topology.Regions()
	return len(have) == len(want) && !slices.ContainsFunc(want, func(name string) bool {
		return !slices.Contains(have, routing.Region(strings.TrimSpace(name)))
	})
}

// names lists a topology's regions.
func names(topology routing.Topology) string {
	var text []string
	for _, region := range topology.Regions() {
		text = append(text, string(region))
	}
	return strings.Join(text, ", ")
}

// contiguous gives each region a range of slots.
func contiguous(regions []string) ([storage.Slots]string, error) {
	named, err := checkRegions(regions)
	if err != nil {
		return [storage.Slots]string{}, err
	}
	return slotNames(routing.Contiguous(named)), nil
}

// checkRegions wants at least one name, and none twice.
func checkRegions(regions []string) (named []routing.Region, err error) {
	const flag = "regions"
	var errs []error
	for _, name := range regions {
		region := routing.Region(strings.TrimSpace(name))
		if err := region.Validate(); err != nil {
			errs = append(errs, wrongf(flag, "%w", err))
		} else if slices.Contains(named, region) {
			errs = append(errs, wrongf(flag, "%q is named twice: leave one out", region))
		}
		named = append(named, region)
	}
	if n := len(regions); n < 1 || n > storage.Slots {
		errs = append(errs, wrongf(flag, "want 1 to %d names, have %d", storage.Slots, n))
	}
	return named, gather(errs...)
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
	if err != nil {
		return routing.Topology{}, err
	}
	var homes [routing.Slots]routing.Region
	for slot, region := range stored.Regions {
		homes[slot] = routing.Region(region)
	}
	topology, err := routing.NewTopology(stored.Epoch, homes)
	if err != nil {
		return routing.Topology{}, err
	}
	return topology.From(stored.Origin), nil
}
