// The scenario of ../scenario.py with Jedis: java -cp JARS JedisStandalone.java PORT PREFIX

import com.google.gson.GsonBuilder;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;

class JedisStandalone {
    static final Map<String, Object> seen = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        String prefix = args[1];
        try (RedisClient client = RedisClient.create("127.0.0.1", Integer.parseInt(args[0]))) {
            data(client, prefix);
            pipelines(client, prefix);
            waiting(client, prefix);

            TreeSet<String> names = new TreeSet<>();
            String cursor = "0";
            do {
                var page = client.scan(cursor, new ScanParams().match(prefix + "*"));
                page.getResult().forEach(key -> names.add(key.substring(prefix.length())));
                cursor = page.getCursor();
            } while (!cursor.equals("0"));
            seen.put("scanned", names);
        }
        System.out.println(new GsonBuilder().serializeNulls().create().toJson(seen));
    }

    static void data(RedisClient client, String prefix) {
        client.set(prefix + "text", "Grüße, Ada");
        seen.put("text", client.get(prefix + "text"));
        seen.put("missing", client.get(prefix + "missing"));

        byte[] bytes = (prefix + "bytes").getBytes();
        client.set(bytes, HexFormat.of().parseHex("00ff0d0a"));
        seen.put("bytes", HexFormat.of().formatHex(client.get(bytes)));

        client.hset(prefix + "hash", Map.of("name", "Ada", "born", "1815"));
        seen.put("hash", client.hgetAll(prefix + "hash"));

        client.sadd(prefix + "set", "x", "y", "x");
        seen.put("members", new TreeSet<>(client.smembers(prefix + "set")));

        client.zadd(prefix + "zset", new TreeMap<>(Map.of("first", 1.5, "second", 2.0)));
        seen.put("ranking", client.zrangeWithScores(prefix + "zset", 0, -1).stream()
            .map(entry -> List.of(entry.getElement(), entry.getScore())).toList());

        client.expireAt(prefix + "text", 4102444800L);
        seen.put("expires_at", client.expireTime(prefix + "text"));
        try {
            client.lpush(prefix + "text", "x");
        } catch (JedisDataException error) {
            seen.put("error", error.getMessage());
        }
    }

    static void pipelines(RedisClient client, String prefix) {
        try (var pipeline = client.pipelined()) {
            List<Response<Long>> counts = IntStream.range(0, 1000).mapToObj(i -> pipeline.incr(prefix + "counter")).toList();
            pipeline.sync();
            seen.put("pipeline", List.of(counts.stream().mapToLong(Response::get).sum(), counts.get(999).get()));
        }

        String number = prefix + "number";
        try (var transaction = client.multi()) {
            transaction.incrBy(number, 40);
            transaction.incrBy(number, 2);
            transaction.get(number);
            seen.put("transaction", transaction.exec());
        }
        try (var transaction = client.transaction(false)) {
            transaction.watch(number);
            transaction.multi();
            transaction.incr(number);
            seen.put("watch_kept", transaction.exec());
        }
        try (var transaction = client.transaction(false)) {
            transaction.watch(number);
            client.set(number, "1");
            transaction.multi();
            transaction.incr(number);
            if (transaction.exec() == null) {
                seen.put("watch_lost", client.get(number));
            }
        }
    }

    static void waiting(RedisClient client, String prefix) throws Exception {
        seen.put("blocking_pop", client.blpop(20, prefix + "queue").get(1));
        seen.put("timed_out_pop", client.blpop(0.1, prefix + "empty"));

        var message = new CompletableFuture<String>();
        var subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                client.publish(channel, "hello");
            }

            @Override
            public void onMessage(String channel, String text) {
                message.complete(text);
                unsubscribe();
            }
        };
        client.subscribe(subscriber, prefix + "channel"); // until it unsubscribes
        seen.put("message", message.get());
    }
}
