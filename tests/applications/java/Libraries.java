// Libraries of Java while the server goes away, in one process: Redisson's lock, then its map and its rate limiter while
// Spring Data Redis adds to a stream and works on it. java -cp JARS:CLASSES Libraries

import java.util.concurrent.Executors;
import java.util.concurrent.Future;

class Libraries {
    public static void main(String[] arguments) throws Exception {
        var threads = Executors.newCachedThreadPool();
        try (var redisson = new RedissonWork(threads); var spring = new SpringStreams()) {
            boolean free = redisson.takeTurns();
            Future<String> stream = threads.submit(spring::work);
            String report = redisson.writeAndAsk();
            System.out.printf("{\"free\": %b, %s, \"stream\": %s}%n", free, report, stream.get());
        }
        threads.shutdown();
    }
}
