// Command asynq: tasks that are enqueued and worked on while the server goes away, some of them later, some retried.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"slotlog/tests/applications/working"
)

const tasks = 60

func main() {
	redis := asynq.RedisClientOpt{Addr: working.Address}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              4,
		LogLevel:                 asynq.FatalLevel,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 10 * time.Millisecond },
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		TaskCheckInterval:        working.Poll,
	})
	var failed sync.Map
	working.Must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		time.Sleep(working.Poll)
		number, err := strconv.Atoi(string(task.Payload()))
		working.Must(err)
		if _, again := failed.LoadOrStore(number, true); number%10 == 0 && !again {
			return errors.New("not yet")
		}
		working.Note(strconv.Itoa(number))
		return nil
	})))
	client := asynq.NewClient(redis)
	for number := range tasks {
		task := asynq.NewTask("work", []byte(strconv.Itoa(number)))
		options := []asynq.Option{asynq.TaskID(strconv.Itoa(number)), asynq.MaxRetry(5), asynq.Retention(time.Hour)}
		if number%7 == 0 {
			options = append(options, asynq.ProcessIn(500*time.Millisecond))
		}
		working.Insist(func() error {
			_, err := client.Enqueue(task, options...)
			if errors.Is(err, asynq.ErrTaskIDConflict) { // it was enqueued before the outage, and not answered
				return nil
			}
			return err
		})
		time.Sleep(working.Poll / 2)
	}
	working.WaitForOutage(2)
	patience, err := time.ParseDuration(os.Getenv("PATIENCE"))
	working.Must(err)
	inspector, deadline := asynq.NewInspector(redis), time.Now().Add(patience)
	var states map[string]int
	working.WaitUntil(patience+working.Timeout, func() bool {
		states = statesOf(inspector)
		held := time.Now().After(deadline) && states["completed"]+states["active"] == tasks
		return states["completed"] == tasks || held
	})
	_, err = inspector.GetQueueInfo("default")
	server.Shutdown()
	working.Report(map[string]any{"states": states, "inspector": fmt.Sprint(err)})
}

// A worker keeps a task for 30 s after the last sign of life, so one that was given to it and lost on the way is active.
func statesOf(inspector *asynq.Inspector) map[string]int {
	states := map[string]int{}
	for number := range tasks {
		working.Insist(func() error {
			info, err := inspector.GetTaskInfo("default", strconv.Itoa(number))
			if err == nil {
				states[info.State.String()]++
			}
			return err
		})
	}
	return states
}
