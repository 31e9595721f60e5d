import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.celeborn.client.*;
import org.apache.celeborn.client.read.*;
import org.apache.celeborn.common.CelebornConf;
import org.apache.celeborn.common.identity.UserIdentifier;

/**
 * The stock client's LifecycleManager and ShuffleClientImpl, without Spark: writes shuffles whose every byte is known,
 * reads them back whole and by map range, and fails on the first byte that is missing, doubled, foreign or wrong.
 *
 * Arguments are key=value: master, replicate, shuffles, maps, partitions, records, size, skew, abandon, ranges, pause, split
 * (1: fail unless a partition was split), seed (other bytes), app (the application's id), die (1: the process ends after its last commit, without
 * a goodbye; 2: before it), and any client key that begins with "celeborn.". A record is: map, partition, sequence,
 * length (i32 each), and bytes that follow from the four.
 */
public class StockClient {
  static final Map<String, String> options = new HashMap<>();
  static int option(String key, int otherwise) { return Integer.parseInt(options.getOrDefault(key, "" + otherwise)); }

  static byte[] record(int map, int partition, int sequence, int size) {
    byte[] bytes = new byte[16 + size];
    ByteBuffer.wrap(bytes).putInt(map).putInt(partition).putInt(sequence).putInt(size);
    long state = 0x632BE59BD9B4E019L * option("seed", 0) + 0x9E3779B97F4A7C15L * (1 + map) ^ 0xC2B2AE3D27D4EB4FL * (1 + partition) ^ (1L + sequence) * 0x165667B19E3779F9L;
    for (int at = 16; at < bytes.length; at++) {
      state ^= state << 13; state ^= state >>> 7; state ^= state << 17;
      bytes[at] = (byte) state;
    }
    return bytes;
  }

  static int size(int map, int partition, int sequence) {
    int base = option("size", 100);
    int size = base + (map * 31 + partition * 17 + sequence * 7) % (base / 2 + 1);
    return partition == 0 ? size * option("skew", 1) : size;
  }

  static void check(boolean right, String what) { if (!right) throw new IllegalStateException(what); }

  /** Reads partition `p` for maps [from, to) and checks that it holds their records, each once, and nothing else. */
  static long verify(ShuffleClientImpl client, int shuffle, int p, int from, int to, int maps, int records) throws Exception {
    MetricsCallback metrics = new MetricsCallback() { public void incBytesRead(long x) {} public void incReadTime(long x) {} };
    BitSet seen = new BitSet();
    long bytes = 0;
    String where = "shuffle " + shuffle + " partition " + p + " maps [" + from + "," + to + ")";
    try (CelebornInputStream in = client.readPartition(shuffle, shuffle, p, 0, from, to, null, null, null, null, metrics)) {
      byte[] head = new byte[16];
      while (true) {
        int got = in.readNBytes(head, 0, 16);
        if (got == 0) break;
        check(got == 16, where + ": a record's head has " + got + " bytes");
        ByteBuffer fields = ByteBuffer.wrap(head);
        int map = fields.getInt(), partition = fields.getInt(), sequence = fields.getInt(), size = fields.getInt();
        String which = where + ": record of map " + map + " partition " + partition + " sequence " + sequence;
        check(partition == p && map >= from && map < to && sequence >= 0 && sequence < records, which + " does not belong here");
        check(size == size(map, partition, sequence), which + " has " + size + " bytes");
        byte[] rest = in.readNBytes(size);
        byte[] expected = record(map, partition, sequence, size);
        check(rest.length == size && Arrays.equals(rest, 0, size, expected, 16, 16 + size), which + " has other bytes");
        int index = map * records + sequence;
        check(!seen.get(index), which + " came twice");
        seen.set(index);
        bytes += 16 + size;
      }
    }
    int expected = (Math.min(to, maps) - from) * records;
    check(seen.cardinality() == expected, where + ": " + seen.cardinality() + " of " + expected + " records");
    return bytes;
  }

  public static void main(String[] arguments) {
    try {
      run(arguments);
      System.out.println("OK");
      System.exit(0);
    } catch (Throwable error) {
      error.printStackTrace();
      // The threads of the pool would keep the process.
      System.exit(1);
    }
  }

  static void run(String[] arguments) throws Exception {
    CelebornConf conf = new CelebornConf();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      if (pair[0].startsWith("celeborn.")) conf.set(pair[0], pair[1]); else options.put(pair[0], pair[1]);
    }
    conf.set("celeborn.master.endpoints", options.getOrDefault("master", "127.0.0.1:9097"));
    conf.set("celeborn.client.push.replicate.enabled", options.getOrDefault("replicate", "false"));
    int maps = option("maps", 4), partitions = option("partitions", 8), records = option("records", 10), abandon = option("abandon", 0);
    String app = options.getOrDefault("app", "judge-" + System.currentTimeMillis() + "-" + ProcessHandle.current().pid());
    LifecycleManager manager = new LifecycleManager(app, conf);
    check(manager.checkQuota().isAvailable(), "the quota is not available");
    check(manager.checkWorkersAvailable().getAvailable(), "there are no workers");
    ShuffleClientImpl client = new ShuffleClientImpl(app, conf, new UserIdentifier("default", "default"));
    client.setupLifecycleManagerRef(manager.getHost(), manager.getPort());
    ExecutorService pool = Executors.newFixedThreadPool(4);
    for (int shuffle = 0; shuffle < option("shuffles", 1); shuffle++) {
      long begin = System.nanoTime();
      int id = shuffle;
      List<Future<?>> tasks = new ArrayList<>();
      AtomicLong written = new AtomicLong();
      for (int m = 0; m < maps; m++) {
        int map = m;
        tasks.add(pool.submit(() -> {
          // Some maps are tried twice: the first attempt writes other bytes and never ends.
          int attempt = map < abandon ? 1 : 0;
          if (attempt == 1) {
            for (int p = 0; p < partitions; p++) {
              byte[] wrong = ("abandoned attempt of map " + map).getBytes();
              client.pushData(id, map, 0, p, wrong, 0, wrong.length, maps, partitions);
            }
            client.cleanup(id, map, 0);
          }
          for (int s = 0; s < records; s++) {
            for (int p = 0; p < partitions; p++) {
              byte[] bytes = record(map, p, s, size(map, p, s));
              written.addAndGet(bytes.length);
              // The last record of each partition goes the way of a map task's remainders.
              if (s == records - 1) client.mergeData(id, map, attempt, p, bytes, 0, bytes.length, maps, partitions);
              else client.pushData(id, map, attempt, p, bytes, 0, bytes.length, maps, partitions);
            }
            if (s == records - 2) client.prepareForMergeData(id, map, attempt);
            if (option("pause", 0) > 0) Thread.sleep(option("pause", 0));
          }
          client.pushMergedData(id, map, attempt);
          client.mapperEnd(id, map, attempt, maps);
          return null;
        }));
      }
      for (Future<?> task : tasks) task.get();
      long pushed = System.nanoTime();
      boolean last = shuffle == option("shuffles", 1) - 1;
      if (last && option("die", 0) == 2) Runtime.getRuntime().halt(9);
      var groups = client.updateFileGroup(id, 0).partitionGroups;
      int locations = groups.values().stream().mapToInt(Set::size).sum();
      if (option("split", 0) == 1) check(locations > partitions, "no partition was split: " + locations + " locations");
      long committed = System.nanoTime();
      AtomicLong read = new AtomicLong();
      tasks.clear();
      for (int p = 0; p < partitions; p++) {
        int partition = p;
        tasks.add(pool.submit(() -> {
          read.addAndGet(verify(client, id, partition, 0, Integer.MAX_VALUE, maps, records));
          for (int r = 0; r < option("ranges", 2); r++) {
            int from = r * maps / 3 % maps, to = Math.min(maps, from + 1 + r);
            verify(client, id, partition, from, to, maps, records);
          }
          return null;
        }));
      }
      for (Future<?> task : tasks) task.get();
      check(read.get() == written.get(), "wrote " + written + " bytes, read " + read);
      System.out.printf("shuffle %d: %d bytes right in %d locations, push %.1f ms, commit %.1f ms, read %.1f ms%n", id, read.get(), locations,
          (pushed - begin) / 1e6, (committed - pushed) / 1e6, (System.nanoTime() - committed) / 1e6);
      if (last && option("die", 0) == 1) Runtime.getRuntime().halt(9);
      manager.unregisterShuffle(id);
    }
    pool.shutdown();
    client.shutdown();
    manager.stop();
  }
}
