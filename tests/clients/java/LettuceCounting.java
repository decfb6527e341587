// Counts keys of a cluster up with Lettuce, until its standard input ends; a dot for each 50: java … PORT PREFIX

import com.google.gson.Gson;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.OutputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

class LettuceCounting {
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
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:" + args[0]);
        // What its manual recommends: by default it never asks again who has which slots.
        var refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers().build();
        client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).build());
        var cluster = client.connect().sync();
        for (int number = 0; !ended.get() && errors.isEmpty(); number++) {
            String key = args[1] + ":" + number % 50;
            try {
                counts.put(key, cluster.incr(key));
            } catch (RuntimeException error) {
                errors.add(error.toString());
            }
            if (number % 50 == 49) {
                System.out.println(".");
            }
        }
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
        System.out.println(new Gson().toJson(Map.of("counts", counts, "errors", errors)));
    }
}
