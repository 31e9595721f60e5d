import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.hdfs.tools.DFSck;
import org.apache.hadoop.hdfs.tools.DebugAdmin;
import org.apache.hadoop.hdfs.tools.ECAdmin;
import org.apache.hadoop.hdfs.tools.StoragePolicyAdmin;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Hadoop's file system shell, many commands in one process: each line of stdin is a command of `hdfs dfs`, or one of `hdfs ec`,
 * `hdfs debug`, `hdfs dfsadmin`, `hdfs fsck` or `hdfs storagepolicies` behind the word for it, its arguments apart by tabs, and after what it prints comes a line "exit N".
 * With the argument "token" the user holds a token, which makes the client begin each connection with a SASL negotiation.
 */
public class Shell {
  public static void main(String[] arguments) throws Exception {
    if (arguments.length > 0 && arguments[0].equals("token")) {
      Token<?> token = new Token<>(new byte[] {1}, new byte[] {2}, new Text("JUDGE"), new Text("judge"));
      UserGroupInformation.getCurrentUser().addToken(token);
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] words = line.split("\t");
      // These words after the settings are tools of their own, anything else is a command of `hdfs dfs`.
      int at = 0;
      while (at < words.length && words[at].startsWith("-D")) at++;
      String first = at < words.length ? words[at] : "";
      Configuration configuration = new Configuration();
      Tool tool =
          switch (first) {
            case "ec" -> new ECAdmin(configuration);
            case "debug" -> new DebugAdmin(configuration);
            case "dfsadmin" -> new DFSAdmin(configuration);
            case "storagepolicies" -> new StoragePolicyAdmin(configuration);
            case "fsck" -> new DFSck(configuration);
            default -> new FsShell(configuration);
          };
      List<String> rest = new ArrayList<>(Arrays.asList(words));
      if (tool.getClass() != FsShell.class) rest.remove(at);
      // As of a process: a byte.
      int exit = ToolRunner.run(configuration, tool, rest.toArray(new String[0])) & 255;
      System.out.flush();
      System.err.flush();
      System.out.println("\nexit " + exit);
    }
    System.exit(0);
  }
}
