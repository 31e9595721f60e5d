import java.util.ArrayList;
import org.apache.hadoop.cli.CLITestHelperDFS;
import org.apache.hadoop.cli.TestErasureCodingCLI;
import org.apache.hadoop.cli.util.CLICommand;
import org.apache.hadoop.cli.util.CLITestData;
import org.apache.hadoop.cli.util.CommandExecutor;
import org.apache.hadoop.cli.util.ComparatorData;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.util.ExitUtil;

/**
 * Hadoop's own scenarios of its shell, with its parser and its comparators, against an address: a line "pass" or "fail" with the
 * scenario's number and description for each, and for a failure what was expected and found. Arguments: the file of scenarios, in
 * the folder of the property test.cache.data, and the address.
 */
public class Scenarios extends CLITestHelperDFS {
  /** Reads the scenarios of erasure coding, which need a parser of their own. */
  static class CodingScenarios extends TestErasureCodingCLI {
    ArrayList<CLITestData> read() {
      readTestConfigFile();
      return testsFromConfigFile;
    }
  }

  final String file;

  Scenarios(String file) {
    this.file = file;
  }

  @Override
  protected String getTestFile() {
    return file;
  }

  @Override
  public void setUp() throws Exception {
    boolean isOfCoding = file.startsWith("testErasureCoding");
    if (isOfCoding) testsFromConfigFile = new CodingScenarios().read();
    super.setUp();
    conf.set("fs.defaultFS", namenode);
    // What Hadoop's own runners set.
    if (!isOfCoding && !file.startsWith("testAcl")) conf.setInt("dfs.replication", 1);
    if (!isOfCoding) return;
    DistributedFileSystem files = (DistributedFileSystem) FileSystem.get(conf);
    for (String policy : new String[] {"RS-6-3-1024k", "RS-3-2-1024k", "XOR-2-1-1024k"}) {
      files.enableErasureCodingPolicy(policy);
    }
  }

  @Override
  protected String expandCommand(String command) {
    String line = System.getProperty("line.separator");
    String expanded = command.replaceAll("NAMENODE", namenode).replaceAll("#LF#", line);
    return expanded.replaceAll("CLITEST_DATA", clitestDataDir).replaceAll("USERNAME", System.getProperty("user.name"));
  }

  @Override
  protected CommandExecutor.Result execute(CLICommand command) throws Exception {
    return command.getExecutor(namenode, conf).executeCommand(command.getCmd());
  }

  void report() {
    int number = 0;
    for (CLITestData scenario : testsFromConfigFile) {
      StringBuilder why = new StringBuilder();
      for (ComparatorData found : scenario.getComparatorData()) {
        if (!scenario.getTestResult() && !found.getTestResult()) {
          why.append(" expected ").append(expandCommand(found.getExpectedOutput()));
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
    Scenarios scenarios = new Scenarios(arguments[0]);
    scenarios.setUp();
    scenarios.testAll();
    scenarios.report();
    System.exit(0);
  }
}
