// The cluster scenario of ../scenario.py with Lettuce: java -cp JARS LettuceCluster.java PORT PREFIX

import com.google.gson.Gson;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

class LettuceCluster {
    public static void main(String[] args) throws Exception {
        String prefix = args[1];
        Map<String, Object> seen = new LinkedHashMap<>();
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:" + args[0]);
        var connection = client.connect();
        var cluster = connection.sync();

        IntStream.range(0, 200).forEach(i -> cluster.set(prefix + i, String.valueOf(i)));
        seen.put("sum", IntStream.range(0, 200).map(i -> Integer.parseInt(cluster.get(prefix + i))).sum());

        List<RedisFuture<Long>> counts = IntStream.range(0, 100)
            .mapToObj(i -> connection.async().incr(prefix + "counter" + i)).toList();
        long counted = 0;
        for (RedisFuture<Long> count : counts) {
            counted += count.get();
        }
        seen.put("pipeline", counted);

        // A transaction belongs to one connection: that of the node which has the slot.
        String number = "{" + prefix + "}number";
        var owner = connection.getPartitions().getPartitionBySlot(SlotHash.getSlot(number));
        var node = connection.getConnection(owner.getNodeId()).sync();
        node.multi();
        node.incrby(number, 40);
        node.incrby(number, 2);
        node.get(number);
        seen.put("transaction", node.exec().stream().toList());
        seen.put("blocking_pop", cluster.blpop(20, "{" + prefix + "}queue").getValue());

        System.out.println(new Gson().toJson(seen));
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }
}
