// Redisson while the server goes away: holders of one lock, then a map, and a rate limiter. java -cp JARS Redisson.java

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

class RedissonThroughOutages {
    static final Path WORK = Path.of(System.getenv("WORK"));
    static final Path OUTAGES = Path.of(System.getenv("OUTAGES"));
    static final Path INSIDE = Path.of(System.getenv("WORK") + ".inside");
    static final int OUTAGE_AT = 15;
    static final int TURNS = 10;
    static final int ENTRIES = 60;
    static final int LIMIT = 40;
    static final long POLL_MS = 20;
    static final Duration TIMEOUT = Duration.ofSeconds(60);
    static final ConcurrentLinkedQueue<String> overlaps = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(15_000);
        config.useSingleServer().setAddress(System.getenv("APPLICATION_URL")).setConnectionMinimumIdleSize(4)
            .setConnectionPoolSize(8).setTimeout(1000).setRetryAttempts(0).setPingConnectionInterval(200);
        RedissonClient client = Redisson.create(config);
        var threads = Executors.newCachedThreadPool();
        all(threads.invokeAll(Stream.of("a", "b", "c", "d").map(name -> takeTurns(client, name)).toList()));
        boolean free = !client.getLock("lock").isLocked();

        Future<Integer> written = threads.submit(() -> write(client.getMap("map")));
        RRateLimiter limiter = client.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, LIMIT, Duration.ofDays(1));
        int unknown = ask(limiter);
        int entries = written.get();
        waitForOutage(2);
        boolean after = insist(limiter::tryAcquire);
        System.out.printf("{\"overlaps\": %d, \"free\": %b, \"entries\": %d, \"unknown\": %d, \"after\": %b}%n",
            overlaps.size(), free, entries, unknown, after);
        threads.shutdown();
        client.shutdown();
    }

    static Callable<Void> takeTurns(RedissonClient client, String name) {
        return () -> {
            RLock lock = client.getLock("lock");
            for (int turn = 0; turn < TURNS; turn++) {
                insist(() -> { lock.lock(); return true; });
                if (!alone("lock " + name + " " + turn)) overlaps.add(name + " " + turn);
                insist(() -> { if (lock.isHeldByCurrentThread()) lock.unlock(); return true; });
            }
            return null;
        };
    }

    static int write(RMap<String, String> map) throws Exception {
        for (int number = 0; number < ENTRIES; number++) {
            String key = "key " + number;
            insist(() -> map.fastPut(key, "value"));
            note("map " + number);
            Thread.sleep(POLL_MS);
        }
        return insist(map::readAllMap).size();
    }

    /** Acquires all that there is; returns 1 if nobody knows whether one more was acquired, when the server went away. */
    static int ask(RRateLimiter limiter) throws Exception {
        int unknown = 0;
        while (true) {
            try {
                if (!limiter.tryAcquire()) return unknown;
                note("allowed");
            } catch (RuntimeException away) {
                unknown = 1;
            }
            Thread.sleep(POLL_MS);
        }
    }

    /** Works as the one holder of a lock: says whether nobody else is inside. It is inside during the first outage. */
    static boolean alone(String line) throws Exception {
        boolean isAlone = true;
        try {
            Files.createFile(INSIDE);
        } catch (FileAlreadyExistsException other) {
            isAlone = false;
        }
        note(line);
        if (lines(WORK) == OUTAGE_AT) {
            waitForOutage(1);
            Thread.sleep(1000); // the others try, and listen for the release again
        }
        Files.deleteIfExists(INSIDE);
        return isAlone;
    }

    static void note(String line) throws IOException {
        Files.writeString(WORK, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static int lines(Path path) throws IOException {
        return Files.readAllLines(path).size();
    }

    static void waitForOutage(int number) throws Exception {
        insist(() -> { if (lines(OUTAGES) < number) throw new IllegalStateException("no outage"); return true; });
    }

    /** The result of a step that is repeated as long as it fails: the server may be away. */
    static <T> T insist(Callable<T> step) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (true) {
            try {
                return step.call();
            } catch (RuntimeException error) {
                if (System.nanoTime() > deadline) throw error;
                Thread.sleep(POLL_MS);
            }
        }
    }

    static void all(List<Future<Void>> futures) throws Exception {
        for (Future<Void> future : futures) future.get();
    }
}
