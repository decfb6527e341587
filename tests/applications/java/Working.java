// Shared by these programs: what they have done, and when the server was away. See ../outages.py.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.concurrent.Callable;

class Working {
    static final String URL = System.getenv("APPLICATION_URL");
    static final Path WORK = Path.of(System.getenv("WORK"));
    static final Path OUTAGES = Path.of(System.getenv("OUTAGES"));
    static final long POLL_MS = 20;
    static final Duration TIMEOUT = Duration.ofSeconds(60);

    static void note(String line) throws IOException {
        Files.writeString(WORK, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static int lines(Path path) throws IOException {
        return Files.readAllLines(path).size();
    }

    static void waitForOutage(int number) throws Exception {
        waitUntil(() -> lines(OUTAGES) >= number);
    }

    static void waitUntil(Callable<Boolean> condition) throws Exception {
        insist(() -> { if (!condition.call()) throw new IllegalStateException("not yet"); return true; });
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
}
