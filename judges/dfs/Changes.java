import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Threads that create, make directories, rename and delete through the stock client, whose retry policy is on, until a line
 * comes on stdin; then all that was acknowledged must be there, and nothing else. Prints "ready", and at the end how many calls
 * were acknowledged and how many failed; exits with 1 if one failed or something is not as acknowledged.
 */
public class Changes {
  static final Set<String> there = ConcurrentHashMap.newKeySet();
  static final List<String> failures = Collections.synchronizedList(new ArrayList<>());
  static final AtomicBoolean ends = new AtomicBoolean();
  static volatile long acknowledged;

  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", "hdfs://" + arguments[0]);
    conf.set("dfs.client.retry.policy.enabled", "true");
    conf.set("dfs.client.retry.policy.spec", "500,80");
    conf.set("ipc.client.connect.max.retries", "1");
    FileSystem fs = FileSystem.get(conf);
    fs.mkdirs(new Path("/changes"));
    System.out.println("ready");
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
      String base = "/changes/t" + number;
      Thread thread = new Thread(() -> work(fs, base));
      thread.start();
      threads.add(thread);
    }
    System.in.read();
    ends.set(true);
    for (Thread thread : threads) thread.join();
    int lost = 0, kept = 0;
    for (String path : there) {
      if (fs.exists(new Path(path))) kept++;
      else if (lost++ < 5) System.out.println("lost: " + path);
    }
    long found = fs.getContentSummary(new Path("/changes")).getFileCount();
    long files = there.stream().filter(path -> path.contains("/f")).count();
    for (String failure : failures) System.out.println("failed: " + failure);
    System.out.println(acknowledged + " calls acknowledged, " + failures.size() + " failed, " + kept + " of " + there.size() + " things there, "
        + found + " files of " + files);
    System.exit(lost == 0 && failures.isEmpty() && found == files ? 0 : 1);
  }

  static void work(FileSystem fs, String base) {
    for (int at = 0; !ends.get(); at++) {
      try {
        String made = base + "/d" + at, file = base + "/f" + at, moved = base + "/g" + at + "/f";
        if (!fs.mkdirs(new Path(made))) throw new IllegalStateException("mkdirs says no");
        there.add(made);
        fs.create(new Path(file), false).close();
        there.add(file);
        acknowledged += 2;
        if (at % 3 == 0) {
          fs.mkdirs(new Path(base + "/g" + at));
          if (!fs.rename(new Path(file), new Path(moved))) throw new IllegalStateException("rename says no");
          there.remove(file);
          there.add(moved);
          acknowledged += 2;
        } else if (at % 3 == 1) {
          if (!fs.delete(new Path(file), false)) throw new IllegalStateException("delete says no");
          there.remove(file);
          acknowledged++;
        }
      } catch (Throwable error) {
        failures.add(base + " " + at + ": " + error);
        return;
      }
    }
  }
}
