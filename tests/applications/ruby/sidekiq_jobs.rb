# Sidekiq: jobs that are enqueued while the server goes away, some for later, some retried; then those that were lost.
# `sidekiq --require` loads it, too: that is the worker. See ../outages.py.

require "json"
require "sidekiq"

JOBS = 60
THREADS = 2
POLL_S = 0.02
QUIET_S = 3 # longer than the worker waits before it looks for what is due
TIMEOUT_S = 90

Sidekiq.configure_client { |config| config.redis = { url: ENV["APPLICATION_URL"] } }
Sidekiq.configure_server do |config|
  config.redis = { url: ENV["APPLICATION_URL"] }
  config.average_scheduled_poll_interval = 1
end

class Work
  include Sidekiq::Job
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  # Every tenth job fails at first.
  def perform(number)
    sleep POLL_S
    failed = "#{ENV["WORK"]}.#{number}"
    if number % 10 == 0 && !File.exist?(failed)
      File.write(failed, "")
      raise "not yet"
    end
    File.write(ENV["WORK"], "#{number}\n", mode: "a")
  end
end

def noted = File.readlines(ENV["WORK"], chomp: true)

def wait_for(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TIMEOUT_S
  until yield
    raise "waited for #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    sleep POLL_S
  end
end

# Whether the server is away, or reads what it holds after a start.
def away?(error) = error.is_a?(Redis::BaseConnectionError) || error.message.start_with?("LOADING ")

# The result of the step, which is repeated while the server is away.
def insist
  result = nil
  wait_for("the server") do
    result = yield
    true
  rescue Redis::BaseError => error
    raise unless away?(error)
    false
  end
  result
end

def waiting = %w[queue:default].sum { |name| insist { Sidekiq.redis { |redis| redis.llen(name) } } } +
  %w[schedule retry].sum { |name| insist { Sidekiq.redis { |redis| redis.zcard(name) } } }

def quiet?
  before = noted.length
  return false if waiting > 0
  sleep QUIET_S
  noted.length == before
end

def main
  command = ["sidekiq", "--require", __FILE__, "--concurrency", THREADS.to_s, "--timeout", "5"]
  worker = Process.spawn(*command, out: :err)
  JOBS.times do |number|
    insist { number % 7 == 0 ? Work.perform_in(1, number) : Work.perform_async(number) }
    sleep POLL_S / 2
  end
  wait_for("the outage") { !File.empty?(ENV["OUTAGES"]) }
  wait_for("quiet") { quiet? }
  lost = (0...JOBS).to_a - noted.map(&:to_i)
  lost.each { |number| insist { Work.perform_async(number) } }
  wait_for("all jobs") { noted.uniq.length == JOBS }
  Process.kill("TERM", worker)
  Process.wait(worker)
  raise "the worker ended with #{$?.exitstatus}" unless $?.success?
  puts JSON.dump(lost: lost.length, left: waiting, retried: Dir.glob("#{ENV["WORK"]}.*").length)
end

main if __FILE__ == $PROGRAM_NAME
