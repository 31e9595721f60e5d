import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.PartialListing;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/** Lists several directories in batches, and the files that cannot be read: Listings ADDRESS PATH... */
public class Listings {
  public static void main(String[] arguments) throws IOException {
    DistributedFileSystem files = (DistributedFileSystem) FileSystem.get(URI.create("hdfs://" + arguments[0]), new Configuration());
    List<Path> paths = new ArrayList<>();
    for (int at = 1; at < arguments.length; at++) {
      paths.add(new Path(arguments[at]));
    }
    RemoteIterator<PartialListing<FileStatus>> listings = files.batchedListStatusIterator(paths);
    while (listings.hasNext()) {
      PartialListing<FileStatus> listing = listings.next();
      try {
        for (FileStatus entry : listing.get()) {
          System.out.println("entry " + entry.getPath().toUri().getPath());
        }
      } catch (IOException error) {
        System.out.println("failed " + listing.getListedPath().toUri().getPath() + " " + error.getClass().getSimpleName());
      }
    }
    RemoteIterator<Path> corrupt = files.listCorruptFileBlocks(new Path("/"));
    while (corrupt.hasNext()) {
      System.out.println("corrupt " + corrupt.next().toUri().getPath());
    }
  }
}
