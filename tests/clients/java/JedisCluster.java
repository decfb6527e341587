// The cluster scenario of ../scenario.py with Jedis: java -cp JARS JedisCluster.java PORT PREFIX

import com.google.gson.Gson;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.util.JedisClusterCRC16;

class JedisCluster {
    public static void main(String[] args) {
        String prefix = args[1];
        Map<String, Object> seen = new LinkedHashMap<>();
        try (var cluster = RedisClusterClient.create(new HostAndPort("127.0.0.1", Integer.parseInt(args[0])))) {
            IntStream.range(0, 200).forEach(i -> cluster.set(prefix + i, String.valueOf(i)));
            seen.put("sum", IntStream.range(0, 200).map(i -> Integer.parseInt(cluster.get(prefix + i))).sum());

            try (var pipeline = cluster.pipelined()) {
                List<Response<Long>> counts = IntStream.range(0, 100)
                    .mapToObj(i -> pipeline.incr(prefix + "counter" + i)).toList();
                pipeline.sync();
                seen.put("pipeline", counts.stream().mapToLong(Response::get).sum());
            }

            // A transaction belongs to one connection: one to the node which has the slot.
            String number = "{" + prefix + "}number";
            try (var owner = cluster.getConnectionFromSlot(JedisClusterCRC16.getSlot(number));
                    var transaction = new Transaction(owner)) {
                transaction.incrBy(number, 40);
                transaction.incrBy(number, 2);
                transaction.get(number);
                seen.put("transaction", transaction.exec());
            }
            seen.put("blocking_pop", cluster.blpop(20, "{" + prefix + "}queue").get(1));
        }
        System.out.println(new Gson().toJson(seen));
    }
}
