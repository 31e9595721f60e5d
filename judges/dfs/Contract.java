import java.io.IOException;
import java.net.URI;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.*;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Hadoop's own tests of what a file system promises, from its test jars, against an address: a line "pass", "fail" or "skip"
 * with the test's name for each, and for a failure its class and message. Arguments: the address, and names of groups; none for
 * all.
 */
public class Contract {
  static URI address;

  /** What HDFS promises, and so do we: the tests leave out what a file system does not promise. */
  static final List<String> PROMISES =
      List.of(
          "is-case-sensitive",
          "rejects-seek-past-eof",
          "rename-returns-false-if-dest-exists",
          "rename-returns-false-if-source-missing",
          "supports-append",
          "supports-atomic-directory-delete",
          "supports-atomic-rename",
          "supports-block-locality",
          "supports-concat",
          "supports-content-check",
          "supports-file-reference",
          "supports-getfilestatus",
          "supports-hflush",
          "supports-hsync",
          "supports-seek",
          "supports-settimes",
          "supports-strict-exceptions",
          "supports-unbuffer",
          "supports-unix-permissions",
          "test.root-tests-enabled");

  static class Remote extends AbstractFSContract {
    Remote(Configuration settings) {
      super(settings);
      PROMISES.forEach(promise -> settings.setBoolean("fs.contract." + promise, true));
      settings.setBoolean("fs.contract.metadata_updated_on_hsync", false);
      settings.setInt("fs.file.contract.test.random-seek-count", 500);
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
      return FileSystem.get(address, getConf());
    }

    @Override
    public String getScheme() {
      return "hdfs";
    }

    @Override
    public Path getTestPath() {
      return new Path("/contract");
    }
  }

  public static class Append extends AbstractContractAppendTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Concat extends AbstractContractConcatTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class ContentSummary extends AbstractContractContentSummaryTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Create extends AbstractContractCreateTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Delete extends AbstractContractDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class GetFileStatus extends AbstractContractGetFileStatusTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class LeaseRecovery extends AbstractContractLeaseRecoveryTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Mkdir extends AbstractContractMkdirTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Open extends AbstractContractOpenTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Rename extends AbstractContractRenameTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class RootDirectory extends AbstractContractRootDirectoryTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class SafeMode extends AbstractContractSafeModeTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class Seek extends AbstractContractSeekTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class SetTimes extends AbstractContractSetTimesTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class BulkDelete extends AbstractContractBulkDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  public static class VectoredRead extends AbstractContractVectoredReadTest {
    public VectoredRead(String buffers) {
      super(buffers);
    }

    @Override
    protected AbstractFSContract createContract(Configuration settings) {
      return new Remote(settings);
    }
  }

  static final List<Class<?>> GROUPS =
      List.of(
          Append.class,
          BulkDelete.class,
          Concat.class,
          ContentSummary.class,
          Create.class,
          Delete.class,
          GetFileStatus.class,
          LeaseRecovery.class,
          Mkdir.class,
          Open.class,
          Rename.class,
          RootDirectory.class,
          SafeMode.class,
          Seek.class,
          SetTimes.class,
          VectoredRead.class);

  static class Report extends RunListener {
    final Set<String> told = new HashSet<>();

    static String name(Description test) {
      return test.getTestClass().getSimpleName() + "." + test.getMethodName();
    }

    void tell(String what, Description test, Throwable why) {
      if (!told.add(name(test))) {
        return;
      }
      String reason = why == null ? "" : "\t" + why.toString().split("\n")[0];
      System.out.println(what + "\t" + name(test) + reason);
    }

    @Override
    public void testFailure(Failure failure) {
      if (failure.getDescription().isTest()) {
        tell("fail", failure.getDescription(), failure.getException());
      } else {
        System.out.println("fail\t" + failure.getDescription().getDisplayName() + "\t" + failure.getException());
      }
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
      tell("skip", failure.getDescription(), failure.getException());
    }

    @Override
    public void testIgnored(Description test) {
      tell("skip", test, null);
    }

    @Override
    public void testFinished(Description test) {
      tell("pass", test, null);
    }
  }

  public static void main(String[] arguments) {
    address = URI.create(arguments[0]);
    Set<String> wanted = new HashSet<>(List.of(arguments).subList(1, arguments.length));
    JUnitCore core = new JUnitCore();
    core.addListener(new Report());
    for (Class<?> group : GROUPS) {
      if (wanted.isEmpty() || wanted.contains(group.getSimpleName())) {
        core.run(group);
      }
    }
    System.exit(0);
  }
}
