// Command redsync: holders of one lock, one of which has it while the server goes away.
package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"slotlog/tests/applications/working"
)

const (
	turns    = 10
	outageAt = 15
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: working.Address})
	locks := redsync.New(goredis.NewPool(client))
	overlaps := []string{}
	var holders sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		holders.Add(1)
		go func() {
			defer holders.Done()
			for turn := range turns {
				line := fmt.Sprintf("%s %d", name, turn)
				lock := locks.NewMutex("lock", redsync.WithExpiry(working.Timeout), redsync.WithTries(1))
				working.Insist(lock.Lock)
				if !working.Alone(line, outageAt) {
					overlaps = append(overlaps, line)
				}
				working.Insist(func() error { return release(lock) })
				time.Sleep(working.Poll / 4)
			}
		}()
	}
	holders.Wait()
	lock := locks.NewMutex("lock", redsync.WithTries(1))
	working.Report(map[string]any{"overlaps": overlaps, "free": lock.Lock() == nil})
}

// An error may be of a release that was done, and not answered.
func release(lock *redsync.Mutex) error {
	_, err := lock.Unlock()
	if errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return nil
	}
	return err
}
