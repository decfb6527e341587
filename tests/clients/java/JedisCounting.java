// Counts keys of a cluster up with Jedis, until its standard input ends; a dot for each 50: java … PORT PREFIX

import com.google.gson.Gson;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;

class JedisCounting {
    public static void main(String[] args) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        Thread waiting = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (java.io.IOException error) {
                // it has ended as well
            }
            ended.set(true);
        });
        waiting.setDaemon(true);
        waiting.start();
        Map<String, Long> counts = new LinkedHashMap<>();
        List<String> errors = new ArrayList<>();
        try (var cluster = RedisClusterClient.create(new HostAndPort("127.0.0.1", Integer.parseInt(args[0])))) {
            for (int number = 0; !ended.get() && errors.isEmpty(); number++) {
                String key = args[1] + ":" + number % 50;
                try {
                    counts.put(key, cluster.incr(key));
                } catch (RuntimeException error) {
                    errors.add(error + " from " + error.getCause());
                }
                if (number % 50 == 49) {
                    System.out.println(".");
                }
            }
        }
        System.out.println(new Gson().toJson(Map.of("counts", counts, "errors", errors)));
    }
}
