// Command telegraf gathers with telegraf's own lustre2 plugin below a root: once for each line on its input.
//
// As in a running telegraf the metrics become line protocol, here for /dev/null. With a second argument they
// are only counted. Each sweep is answered with a line of JSON.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/models"
	"github.com/influxdata/telegraf/plugins/inputs/lustre2"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
)

func main() {
	root := os.Args[1]
	serializer := &influx.Serializer{}
	check(serializer.Init())
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check(err)
	out := bufio.NewWriter(null)
	write := func(metric telegraf.Metric) {
		line, err := serializer.Serialize(metric)
		check(err)
		_, err = out.Write(line)
		check(err)
	}
	if len(os.Args) > 2 {
		write = func(telegraf.Metric) {}
	}
	plugin := &lustre2.Lustre2{
		MgsProcfiles: []string{root + "/sys/fs/lustre/mgs/*/eviction_count"},
		OstProcfiles: []string{
			root + "/proc/fs/lustre/obdfilter/*/job_stats",
			root + "/proc/fs/lustre/obdfilter/*/exports/*/stats",
		},
		MdsProcfiles: []string{root + "/proc/fs/lustre/mdt/*/job_stats"},
	}
	input := models.NewRunningInput(plugin, &models.InputConfig{Name: "lustre2"})
	for requests := bufio.NewScanner(os.Stdin); requests.Scan(); {
		fmt.Printf("{\"metrics\": %d}\n", sweep(plugin, input, write))
	}
}

func sweep(plugin *lustre2.Lustre2, input *models.RunningInput, write func(telegraf.Metric)) int {
	metrics := make(chan telegraf.Metric, 100)
	written := make(chan int)
	go func() {
		count := 0
		for metric := range metrics {
			write(metric)
			count++
		}
		written <- count
	}()
	check(plugin.Gather(agent.NewAccumulator(input, metrics)))
	close(metrics)
	return <-written
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
