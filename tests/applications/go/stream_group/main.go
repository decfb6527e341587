// Command stream_group: entries that are added while the server goes away, and a group of consumers of go-redis that acknowledges them.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"slotlog/tests/applications/working"
)

const (
	stream  = "work"
	group   = "workers"
	block   = 200 * time.Millisecond
	minIdle = 1500 * time.Millisecond
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	client := redis.NewClient(&redis.Options{Addr: working.Address})
	working.Insist(func() error { return unless("BUSYGROUP", client.XGroupCreateMkStream(ctx, stream, group, "0").Err()) })
	var consumers sync.WaitGroup
	for _, name := range []string{"ann", "bob", "cy"} {
		consumers.Go(func() { consume(ctx, client, name) })
	}
	for number := range working.Entries {
		add := &redis.XAddArgs{Stream: stream, ID: fmt.Sprintf("%d-0", number+1), Values: []any{"number", number}}
		working.Insist(func() error { return unless("equal or smaller", client.XAdd(ctx, add).Err()) })
	}
	working.WaitForOutage(working.Kills)
	working.WaitUntil(working.Timeout, func() bool { return working.Noted() == working.Entries })
	working.WaitUntil(working.Timeout, func() bool {
		pending, err := client.XPending(ctx, stream, group).Result()
		return err == nil && pending.Count == 0
	})
	stop()
	consumers.Wait()
	groups, err := client.XInfoGroups(context.Background(), stream).Result()
	working.Must(err)
	working.Report(map[string]any{
		"length":  client.XLen(context.Background(), stream).Val(),
		"pending": groups[0].Pending, "read": groups[0].EntriesRead, "lag": groups[0].Lag,
	})
}

// consume works on what is new, and on what was given to anybody a while ago and is not acknowledged.
func consume(ctx context.Context, client *redis.Client, name string) {
	for ctx.Err() == nil {
		idle, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: stream, Group: group, Consumer: name, MinIdle: minIdle, Start: "0", Count: 5,
		}).Result()
		work(ctx, client, idle)
		found, again := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: name, Streams: []string{stream, ">"}, Count: 5, Block: block,
		}).Result()
		for _, each := range found {
			work(ctx, client, each.Messages)
		}
		if err != nil || (again != nil && !errors.Is(again, redis.Nil)) { // the server is away
			time.Sleep(working.Poll)
		}
	}
}

func work(ctx context.Context, client *redis.Client, messages []redis.XMessage) {
	for _, message := range messages {
		working.Note(message.Values["number"].(string))
		client.XAck(ctx, stream, group, message.ID) // where it fails, the entry is claimed again
	}
}

// unless takes an error with these words for none: the command was done before the outage, and not answered.
func unless(words string, err error) error {
	if err != nil && strings.Contains(err.Error(), words) {
		return nil
	}
	return err
}
