import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one DataNode: a port for the NameNode and a folder. Says "ready", and ends with stdin. */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    // Hadoop logs to stdout, which nobody reads after the first line.
    java.io.PrintStream out = System.out;
    System.setOut(System.err);
    Configuration conf = new Configuration();
    conf.set("hdfs.minidfs.basedir", new File(arguments[1]).getAbsolutePath());
    conf.set("dfs.replication", "1");
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(conf).nameNodePort(Integer.parseInt(arguments[0])).numDataNodes(1).build();
    cluster.waitActive();
    cluster.getFileSystem().setPermission(new Path("/"), new FsPermission((short) 0777));
    out.println("ready");
    while (System.in.read() >= 0) {}
    cluster.shutdown();
    System.exit(0);
  }
}
