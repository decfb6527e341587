// The scenario of ../scenario.py with Lettuce: java -cp JARS LettuceStandalone.java PORT PREFIX

import com.google.gson.GsonBuilder;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

class LettuceStandalone {
    static final Map<String, Object> seen = new LinkedHashMap<>();
    static String prefix;

    public static void main(String[] args) throws Exception {
        prefix = args[1];
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + args[0]);
        StatefulRedisConnection<String, String> connection = client.connect();
        data(connection.sync());
        bytes(client);
        pipelines(connection, client.connect().sync());
        waiting(client, connection.sync());

        var keys = ScanIterator.scan(connection.sync(), ScanArgs.Builder.matches(prefix + "*"));
        TreeSet<String> names = new TreeSet<>();
        keys.forEachRemaining(key -> names.add(key.substring(prefix.length())));
        seen.put("scanned", names);

        System.out.println(new GsonBuilder().serializeNulls().create().toJson(seen));
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }

    static void data(RedisCommands<String, String> redis) {
        redis.set(prefix + "text", "Grüße, Ada");
        seen.put("text", redis.get(prefix + "text"));
        seen.put("missing", redis.get(prefix + "missing"));

        redis.hset(prefix + "hash", Map.of("name", "Ada", "born", "1815"));
        seen.put("hash", redis.hgetall(prefix + "hash"));

        redis.sadd(prefix + "set", "x", "y", "x");
        seen.put("members", new TreeSet<>(redis.smembers(prefix + "set")));

        redis.zadd(prefix + "zset", 1.5, "first", 2.0, "second");
        seen.put("ranking", redis.zrangeWithScores(prefix + "zset", 0, -1).stream()
            .map(entry -> List.of(entry.getValue(), entry.getScore())).toList());

        redis.expireat(prefix + "text", 4102444800L);
        seen.put("expires_at", redis.expiretime(prefix + "text"));
        try {
            redis.lpush(prefix + "text", "x");
        } catch (RedisCommandExecutionException error) {
            seen.put("error", error.getMessage());
        }
    }

    static void bytes(RedisClient client) {
        var redis = client.connect(ByteArrayCodec.INSTANCE).sync();
        byte[] key = (prefix + "bytes").getBytes();
        redis.set(key, HexFormat.of().parseHex("00ff0d0a"));
        seen.put("bytes", HexFormat.of().formatHex(redis.get(key)));
    }

    static void pipelines(StatefulRedisConnection<String, String> connection, RedisCommands<String, String> other) throws Exception {
        var async = connection.async();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<Long>> counts = IntStream.range(0, 1000).mapToObj(i -> async.incr(prefix + "counter")).toList();
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        long sum = 0;
        for (RedisFuture<Long> count : counts) {
            sum += count.get();
        }
        seen.put("pipeline", List.of(sum, counts.get(999).get()));

        var redis = connection.sync();
        String number = prefix + "number";
        redis.multi();
        redis.incrby(number, 40);
        redis.incrby(number, 2);
        redis.get(number);
        seen.put("transaction", redis.exec().stream().toList());

        redis.watch(number);
        redis.multi();
        redis.incr(number);
        seen.put("watch_kept", redis.exec().stream().toList());

        redis.watch(number);
        other.set(number, "1");
        redis.multi();
        redis.incr(number);
        if (redis.exec().wasDiscarded()) {
            seen.put("watch_lost", redis.get(number));
        }
    }

    static void waiting(RedisClient client, RedisCommands<String, String> redis) throws Exception {
        seen.put("blocking_pop", redis.blpop(20, prefix + "queue").getValue());
        seen.put("timed_out_pop", redis.blpop(0.1, prefix + "empty"));

        var message = new CompletableFuture<String>();
        var subscriber = client.connectPubSub();
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String text) {
                message.complete(text);
            }
        });
        subscriber.sync().subscribe(prefix + "channel");
        redis.publish(prefix + "channel", "hello");
        seen.put("message", message.get());
    }
}
