// Jobs on River, on DATABASE_URL; called as the other contestants are. Its settings are those of its own benchmark:
// github.com/riverqueue/river, cmd/river/riverbench/river_bench.go, which calls them much faster than the defaults.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	chunk       = 1000
	connections = 10
	cooldown    = 2 * time.Millisecond
	poll        = 20 * time.Millisecond
	slots       = 2000
)

type noop struct{}

func (noop) Kind() string { return "noop" }

type stamp struct {
	At float64 `json:"at"`
}

func (stamp) Kind() string { return "stamp" }

type client = river.Client[pgx.Tx]

func makeClient(pool *pgxpool.Pool, notes *notebook) *client {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noop]) error {
		return notes.job()
	}))
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[stamp]) error {
		return notes.stamp(job.Args.At)
	}))
	return must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     cooldown,
		FetchPollInterval: poll,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		Workers:           workers,
	}))
}

func insertMany(ctx context.Context, client *client, args river.JobArgs, count int, opts *river.InsertOpts) error {
	many := make([]river.InsertManyParams, count)
	for place := range many {
		many[place] = river.InsertManyParams{Args: args, InsertOpts: opts}
	}
	_, err := client.InsertManyFast(ctx, many)
	return err
}

func insertAll(ctx context.Context, client *client, args river.JobArgs, count int, opts *river.InsertOpts) {
	for left := count; left > 0; left -= chunk {
		check(insertMany(ctx, client, args, min(left, chunk), opts))
	}
}

func prepare(ctx context.Context, pool *pgxpool.Pool) {
	migrator := must(rivermigrate.New(riverpgxv5.New(pool), nil))
	must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
}

func main() {
	ctx := context.Background()
	config := must(pgxpool.ParseConfig(os.Getenv("DATABASE_URL")))
	config.MaxConns = connections
	pool := must(pgxpool.NewWithConfig(ctx, config))
	if len(os.Args) == 2 && os.Args[1] == "prepare" {
		prepare(ctx, pool)
		return
	}
	notes := &notebook{folder: os.Getenv("BENCHMARK_NOTES")}
	client := makeClient(pool, notes)
	single := func() error {
		_, err := client.Insert(ctx, noop{}, nil)
		return err
	}
	bulk := func(count int) func() error {
		return func() error { return insertMany(ctx, client, noop{}, count, nil) }
	}
	switch command := os.Args[1]; command {
	case "load":
		insertAll(ctx, client, noop{}, int(given(2)), nil)
	case "schedule":
		at := given(3)
		due := time.UnixMicro(int64(at * 1e6))
		insertAll(ctx, client, stamp{At: at}, int(given(2)), &river.InsertOpts{ScheduledAt: due})
	case "submit":
		call := single
		if given(2) > 1 {
			call = bulk(int(given(2)))
		}
		hammer(call, int(given(2)), int(given(3)), given(4))
	case "feed":
		notes.feed(bulk(chunk), chunk, int(given(2)), given(3))
	case "ping":
		for left := int(given(2)); left > 0; left-- {
			must(client.Insert(ctx, stamp{At: wall()}, nil))
			time.Sleep(time.Duration(given(3) * float64(time.Second)))
		}
	case "work":
		check(client.Start(ctx))
		<-client.Stopped()
	default:
		check(fmt.Errorf("unknown command %q", command))
	}
}

// given returns an argument that is a number.
func given(place int) float64 {
	return must(strconv.ParseFloat(os.Args[place], 64))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}
