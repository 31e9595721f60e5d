import java.io.FileInputStream;
import java.io.InputStream;
import java.util.EnumSet;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag;

/**
 * Writes a local file to a path through the stock client, so many bytes a second, in parts of random lengths, and flushes after
 * some of them: "flushed N" says that N bytes are. "closed N" says that the file is whole. If the file is there, it appends what that lacks.
 *
 * Arguments: the address, the path, the local file, the bytes a second, a seed, and settings NAME=VALUE.
 */
public class Flushes {
  static final int PART_MAX = 300_000;

  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", "hdfs://" + arguments[0]);
    for (int at = 5; at < arguments.length; at++) {
      String[] setting = arguments[at].split("=", 2);
      conf.set(setting[0], setting[1]);
    }
    double pace = Double.parseDouble(arguments[3]);
    Random random = new Random(Long.parseLong(arguments[4]));
    long sent = 0, began = System.nanoTime();
    byte[] part = new byte[PART_MAX];
    try (InputStream from = new FileInputStream(arguments[2])) {
      FileSystem files = FileSystem.get(conf);
      Path path = new Path(arguments[1]);
      boolean appends = files.exists(path);
      if (appends) from.skipNBytes(sent = files.getFileStatus(path).getLen());
      long before = sent;
      FSDataOutputStream to = appends ? files.append(path) : files.create(path);
      System.out.println("created");
      for (int length; (length = from.read(part, 0, 1 + random.nextInt(PART_MAX))) > 0; ) {
        to.write(part, 0, length);
        sent += length;
        switch (random.nextInt(6)) {
          case 0 -> to.hflush();
          case 1 -> to.hsync();
          case 2 -> {
            // With its length, which the NameNode keeps.
            if (to instanceof HdfsDataOutputStream known) known.hsync(EnumSet.of(SyncFlag.UPDATE_LENGTH));
            else to.hsync();
          }
          default -> length = 0;
        }
        if (length > 0) System.out.println("flushed " + sent);
        long wait = (long) ((sent - before) / pace * 1000) - (System.nanoTime() - began) / 1_000_000;
        if (wait > 0) Thread.sleep(wait);
      }
      to.close();
      System.out.println("closed " + sent);
    }
    System.exit(0);
  }
}
