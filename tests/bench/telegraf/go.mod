// The peer of `make bench`. Built in the cache folder, where go.sum and the indirect requirements are made.
module harvest/bench/telegraf

go 1.25.5

require github.com/influxdata/telegraf v1.37.2
