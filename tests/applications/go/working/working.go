// Package working is shared by these programs: what they have done, and when the server was away. See ../../outages.py.
package working

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
)

// Poll is how long to wait before looking again; Timeout is how long to look.
const (
	Poll    = 20 * time.Millisecond
	Timeout = 60 * time.Second
)

// Address is that of the server.
var Address = strings.TrimSuffix(strings.TrimPrefix(os.Getenv("APPLICATION_URL"), "redis://"), "/0")

// Entries is how much work a program of a stream gets, Kills how often its server is killed meanwhile.
var (
	Entries, _ = strconv.Atoi(os.Getenv("ENTRIES"))
	Kills, _   = strconv.Atoi(os.Getenv("KILLS"))
)

// Note appends a piece of work.
func Note(line string) {
	file, err := os.OpenFile(os.Getenv("WORK"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	Must(err)
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	Must(err)
}

// Noted says how many different pieces of work there are.
func Noted() int {
	different := map[string]bool{}
	for _, line := range lines("WORK") {
		different[line] = true
	}
	return len(different)
}

// WaitForOutage waits until the server has been away so often, and is back.
func WaitForOutage(number int) {
	WaitUntil(Timeout, func() bool { return len(lines("OUTAGES")) >= number })
}

// WaitUntil waits until the condition holds.
func WaitUntil(timeout time.Duration, condition func() bool) {
	for deadline := time.Now().Add(timeout); !condition(); time.Sleep(Poll) {
		if time.Now().After(deadline) {
			panic("it took too long")
		}
	}
}

// Insist repeats a step as long as it fails: the server may be away.
func Insist(step func() error) {
	deadline := time.Now().Add(Timeout)
	for {
		err := step()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			panic(err)
		}
		time.Sleep(Poll)
	}
}

// Alone works as the one holder of a lock: it says whether nobody else is inside. It is inside during the outage.
func Alone(line string, outageAt int) bool {
	inside := os.Getenv("WORK") + ".inside"
	file, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		file.Close()
	}
	Note(line)
	if Noted() == outageAt {
		WaitForOutage(1)
		time.Sleep(300 * time.Millisecond)
	}
	os.Remove(inside)
	return err == nil
}

// Report prints what was seen.
func Report(seen map[string]any) {
	Must(json.NewEncoder(os.Stdout).Encode(seen))
}

// Must stops the program at an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

func lines(variable string) []string {
	text, err := os.ReadFile(os.Getenv(variable))
	Must(err)
	return strings.Split(string(text), "\n")[:strings.Count(string(text), "\n")]
}
