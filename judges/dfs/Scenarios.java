import java.io.File;
import java.util.List;
import org.apache.hadoop.cli.CLITestHelperDFS;
import org.apache.hadoop.cli.TestErasureCodingCLI;
import org.apache.hadoop.cli.util.CLICommand;
import org.apache.hadoop.cli.util.CLITestData;
import org.apache.hadoop.cli.util.CommandExecutor;
import org.apache.hadoop.cli.util.ComparatorData;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.util.ExitUtil;

/**
 * Hadoop's own scenarios of its shell, with its parser and its comparators, against an address: a line "pass" or "fail" with the
 * scenario's number and description for each, and for a failure what was expected and found. Arguments: the file of scenarios, in
 * the folder of the property test.cache.data, and the address.
 */
public class Scenarios {
  /** The shell's scenarios. */
  static class Runner extends CLITestHelperDFS {
    final String file;

    Runner(String file) {
      this.file = file;
    }

    @Override
    protected String getTestFile() {
      return file;
    }

    @Override
    public void setUp() throws Exception {
      super.setUp();
      // What Hadoop's own runners set.
      if (!file.startsWith("testAcl")) conf.setInt("dfs.replication", 1);
      prepare(conf);
    }

    @Override
    protected String expandCommand(String command) {
      return expand(command, clitestDataDir);
    }

    @Override
    protected CommandExecutor.Result execute(CLICommand command) throws Exception {
      return command.getExecutor(namenode, conf).executeCommand(command.getCmd());
    }

    void run() throws Exception {
      setUp();
      testAll();
      report(testsFromConfigFile, clitestDataDir);
    }
  }

  /** Those of erasure coding, which are read by a parser of their own. */
  static class CodingRunner extends TestErasureCodingCLI {
    @Override
    public void setUp() throws Exception {
      readTestConfigFile();
      conf = new Configuration();
      clitestDataDir = new File(TEST_CACHE_DATA_DIR).toURI().toString();
      prepare(conf);
      DistributedFileSystem files = (DistributedFileSystem) FileSystem.get(conf);
      for (String policy : new String[] {"RS-6-3-1024k", "RS-3-2-1024k", "XOR-2-1-1024k"}) {
        files.enableErasureCodingPolicy(policy);
      }
    }

    @Override
    protected String expandCommand(String command) {
      return expand(command, clitestDataDir);
    }

    @Override
    protected CommandExecutor.Result execute(CLICommand command) throws Exception {
      return command.getExecutor(namenode, conf).executeCommand(command.getCmd());
    }

    void run() throws Exception {
      setUp();
      testAll();
      report(testsFromConfigFile, clitestDataDir);
    }
  }

  static void prepare(Configuration conf) {
    conf.set("fs.defaultFS", namenode);
  }

  static String expand(String command, String data) {
    String line = System.getProperty("line.separator");
    String expanded = command.replaceAll("NAMENODE", namenode).replaceAll("#LF#", line);
    return expanded.replaceAll("CLITEST_DATA", data).replaceAll("USERNAME", System.getProperty("user.name"));
  }

  static void report(List<CLITestData> scenarios, String data) {
    int number = 0;
    for (CLITestData scenario : scenarios) {
      StringBuilder why = new StringBuilder();
      for (ComparatorData found : scenario.getComparatorData()) {
        if (!scenario.getTestResult() && !found.getTestResult()) {
          why.append(" expected ").append(expand(found.getExpectedOutput(), data));
          why.append(" found ").append(found.getActualOutput());
        }
      }
      String fate = scenario.getTestResult() ? "pass" : "fail";
      String reason = why.toString().replaceAll("\\s+", " ");
      System.out.println(fate + "\t" + ++number + " " + scenario.getTestDesc().replaceAll("\\s+", " ") + "\t" + reason);
    }
  }

  static String namenode;

  public static void main(String[] arguments) throws Exception {
    ExitUtil.disableSystemExit();
    namenode = arguments[1];
    if (arguments[0].startsWith("testErasureCoding")) new CodingRunner().run();
    else new Runner(arguments[0]).run();
    System.exit(0);
  }
}
