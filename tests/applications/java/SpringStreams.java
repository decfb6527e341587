// Spring Data Redis: entries that are added to a stream, and listeners of a group that acknowledge them.

import java.net.URI;
import java.time.Duration;
import java.util.Map;
import org.springframework.data.domain.Range;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.PendingMessage;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.RecordId;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.connection.stream.StreamRecords;
import org.springframework.data.redis.core.StreamOperations;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamMessageListenerContainerOptions;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamReadRequest;

class SpringStreams implements AutoCloseable {
    static final int ENTRIES = 60;
    static final Duration POLL = Duration.ofMillis(100);
    static final Duration IDLE = Duration.ofMillis(1500);
    final LettuceConnectionFactory factory;
    final StreamOperations<String, String, String> streams;

    SpringStreams() {
        URI url = URI.create(Working.URL);
        var client = LettuceClientConfiguration.builder().commandTimeout(Duration.ofSeconds(1)).build();
        factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration(url.getHost(), url.getPort()), client);
        factory.afterPropertiesSet();
        factory.start();
        streams = new StringRedisTemplate(factory).opsForStream();
    }

    /** Adds entries while two listeners work on them; a report. */
    String work() throws Exception {
        Working.insist(() -> streams.createGroup("stream", ReadOffset.from("0"), "crew"));
        var options = StreamMessageListenerContainerOptions.builder().pollTimeout(POLL).batchSize(5).build();
        var container = StreamMessageListenerContainer.create(factory, options);
        for (String name : new String[] {"ann", "bob"}) {
            var request = StreamReadRequest.builder(StreamOffset.create("stream", ReadOffset.lastConsumed()))
                .consumer(Consumer.from("crew", name)).autoAcknowledge(false)
                .cancelOnError(away -> false).errorHandler(away -> pause()).build();
            container.register(request, this::workOn);
        }
        container.start();
        for (int number = 0; number < ENTRIES; number++) {
            add(number);
            pause();
        }
        Working.waitForOutage(2);
        Working.waitUntil(this::isAllDone);
        container.stop();
        var group = streams.groups("stream").get(0);
        return String.format("{\"length\": %d, \"pending\": %d, \"read\": %s, \"lag\": %s}", streams.size("stream"),
            group.pendingCount(), group.getRaw().get("entries-read"), group.getRaw().get("lag"));
    }

    @Override
    public void close() {
        factory.destroy();
    }

    /** Adds an entry with an id of its own, so that one which was not answered is added once. */
    private void add(int number) throws Exception {
        var entry = StreamRecords.mapBacked(Map.of("number", String.valueOf(number)))
            .withStreamKey("stream").withId(RecordId.of(number + 1, 0));
        Working.insist(() -> {
            try {
                return streams.add(entry);
            } catch (RuntimeException error) {
                if (String.valueOf(error.getCause()).contains("equal or smaller")) return entry.getId();
                throw error;
            }
        });
    }

    private void workOn(MapRecord<String, String, String> entry) {
        try {
            Working.note("stream " + entry.getValue().get("number"));
            Working.insist(() -> streams.acknowledge("crew", entry));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** What was given to a listener that never got it is claimed; true when nothing is left. */
    private boolean isAllDone() {
        var group = streams.groups("stream").get(0);
        if (group.pendingCount() == 0) return Integer.toString(ENTRIES).equals(group.getRaw().get("entries-read").toString());
        var lost = streams.pending("stream", "crew", Range.unbounded(), 100L).stream()
            .filter(each -> each.getElapsedTimeSinceLastDelivery().compareTo(IDLE) > 0)
            .map(PendingMessage::getId).toArray(RecordId[]::new);
        if (lost.length > 0) streams.claim("stream", "crew", "cy", IDLE, lost).forEach(this::workOn);
        return false;
    }

    private static void pause() {
        try {
            Thread.sleep(Working.POLL_MS);
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
