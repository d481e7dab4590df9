// Prints, as JSON, the first 20 fires of schedules by github.com/robfig/cron v3, which Kubernetes' CronJobs go by.
// Made with: go mod init table && go get github.com/robfig/cron/v3@v3.0.1 && go run . >robfig.json (then one row a line)
package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/robfig/cron/v3"
)

type row struct {
	Schedule string   `json:"schedule"`
	Tz       string   `json:"tz"`
	After    string   `json:"after"`
	Fires    []string `json:"fires"`
	Error    string   `json:"error,omitempty"`
}

var schedules = []string{
	"* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "30 1 * * *", "0 0 * * *", "5/15 * * * *", "0 9-17 * * 1-5",
	"0 0 13 * 5", "0 0 */2 * 1", "0 0 1 */3 *", "0 0 1-7 * 1", "0 0 */2 * *", "0 0 * * */2", "0 0 1,15 * *", "0 0 31 * *",
	"0 0 29 2 *", "15,45 8/4 * * MON-FRI", "0 0 ? * SUN", "0 0 1 JAN,jul ?", "*/15 0-3 * * *", "0 0 10-20/3 * 2-6/2",
	"0 0 */1 * 1", "0 0 *,5 * 1", "0 0 5 * *,1", "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@every 90m", "@every 1h30m10s",
	"0 0 * * 7", "0 22-2 * * *", "60 * * * *", "0 0 * *", "@reboot", "@every 5", "0 0 L * *", "0 0 * * 5#2", "CRON_TZ=UTC 0 0 * * *", "0 0 30 2 *", "", "*/0 * * * *", "0 0 0 * *",
}

func main() {
	rows := []row{}
	for _, place := range [][2]string{{"UTC", "2026-01-14T10:07:00Z"}, {"Europe/Berlin", "2026-03-28T11:00:00Z"}, {"America/New_York", "2026-10-31T10:00:00Z"}} {
		zone, _ := time.LoadLocation(place[0])
		start, _ := time.Parse(time.RFC3339, place[1])
		for _, text := range schedules {
			one := row{Schedule: text, Tz: place[0], After: place[1], Fires: []string{}}
			schedule, err := cron.ParseStandard(text)
			if err != nil {
				one.Error = err.Error()
			} else {
				at := start.In(zone)
				for range 20 {
					at = schedule.Next(at)
					if at.IsZero() {
						break
					}
					one.Fires = append(one.Fires, at.UTC().Format(time.RFC3339))
				}
			}
			rows = append(rows, one)
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	out.Encode(rows)
}
