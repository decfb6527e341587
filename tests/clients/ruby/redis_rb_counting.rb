# Counts keys of a cluster up with redis-rb, until its standard input ends; a dot for each 50: ruby … PORT PREFIX

require "json"
require "redis"

port, prefix = ARGV
$stdout.sync = true
ended = false
Thread.new { $stdin.read; ended = true }
cluster = Redis.new(cluster: ["redis://127.0.0.1:#{port}"])
counts = {}
errors = []
number = 0
until ended || errors.any?
  key = "#{prefix}:#{number % 50}"
  begin
    counts[key] = cluster.incr(key)
  rescue StandardError => error
    errors << "#{error.class}: #{error.message}"
  end
  number += 1
  puts "." if (number % 50).zero?
end
puts JSON.generate(counts: counts, errors: errors)
