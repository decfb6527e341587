// Redisson: holders of one lock, then a map, and a rate limiter.

import static java.util.stream.Collectors.toList;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisReconnectedException;
import org.redisson.client.RedisResponseTimeoutException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

class RedissonWork implements AutoCloseable {
    static final Path INSIDE = Path.of(Working.WORK + ".inside");
    static final int OUTAGE_AT = 15;
    static final int TURNS = 10;
    static final int ENTRIES = 60;
    static final int LIMIT = 40;
    final ConcurrentLinkedQueue<String> overlaps = new ConcurrentLinkedQueue<>();
    final ExecutorService threads;
    final RedissonClient client;

    RedissonWork(ExecutorService threads) {
        this.threads = threads;
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(15_000);
        config.useSingleServer().setAddress(Working.URL).setConnectionMinimumIdleSize(4)
            .setConnectionPoolSize(8).setTimeout(1000).setRetryAttempts(0).setPingConnectionInterval(200);
        client = Redisson.create(config);
    }

    /** Whether the lock is free when everybody has had it. */
    boolean takeTurns() throws Exception {
        for (Future<Void> turns : threads.invokeAll(Stream.of("a", "b", "c", "d").map(this::takeTurns).collect(toList()))) {
            turns.get();
        }
        return !client.getLock("lock").isLocked();
    }

    /** Fills a map, and asks a rate limiter meanwhile; the fields of a report. */
    String writeAndAsk() throws Exception {
        Future<Integer> written = threads.submit(() -> write(client.getMap("map")));
        RRateLimiter limiter = client.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, LIMIT, Duration.ofDays(1));
        int unknown = ask(limiter);
        int entries = written.get();
        Working.waitForOutage(2);
        boolean after = Working.insist(limiter::tryAcquire);
        return String.format("\"overlaps\": %d, \"entries\": %d, \"unknown\": %d, \"after\": %b",
            overlaps.size(), entries, unknown, after);
    }

    @Override
    public void close() {
        client.shutdown();
    }

    private Callable<Void> takeTurns(String name) {
        return () -> {
            RLock lock = client.getLock("lock");
            for (int turn = 0; turn < TURNS; turn++) {
                Working.insist(() -> { lock.lock(); return true; });
                if (!alone("lock " + name + " " + turn)) overlaps.add(name + " " + turn);
                Working.insist(() -> { if (lock.isHeldByCurrentThread()) lock.unlock(); return true; });
            }
            return null;
        };
    }

    private static int write(RMap<String, String> map) throws Exception {
        for (int number = 0; number < ENTRIES; number++) {
            String key = "key " + number;
            Working.insist(() -> map.fastPut(key, "value"));
            Working.note("map " + number);
            Thread.sleep(Working.POLL_MS);
        }
        return Working.insist(map::readAllMap).size();
    }

    /**
     * Acquires all that there is; returns how many calls may have acquired one more. Such a call was sent, and its answer
     * is missing: the server went away, or came back too slowly. There may be several. Any other failure is of a call
     * that was not sent.
     */
    private static int ask(RRateLimiter limiter) throws Exception {
        int unknown = 0;
        while (true) {
            try {
                if (!limiter.tryAcquire()) return unknown;
                Working.note("allowed");
            } catch (RedisResponseTimeoutException | RedisReconnectedException sent) {
                unknown++;
            } catch (RuntimeException notSent) {
                // asked again
            }
            Thread.sleep(Working.POLL_MS);
        }
    }

    /** Works as the one holder of a lock: says whether nobody else is inside. It is inside during the first outage. */
    private static boolean alone(String line) throws Exception {
        boolean isAlone = true;
        try {
            Files.createFile(INSIDE);
        } catch (FileAlreadyExistsException other) {
            isAlone = false;
        }
        Working.note(line);
        if (Working.lines(Working.WORK) == OUTAGE_AT) {
            Working.waitForOutage(1);
            Thread.sleep(1000); // the others try, and listen for the release again
        }
        Files.deleteIfExists(INSIDE);
        return isAlone;
    }
}
