import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.QuotaUsage;
import org.apache.hadoop.fs.XAttrSetFlag;
import org.apache.hadoop.fs.permission.AclEntry;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.ipc.RemoteException;

/**
 * Makes calls of Hadoop's FileSystem that a seed chooses, as two users, on few names, so that they meet. What is chosen depends on the seed
 * alone. Each call is a line: what it was, " -> ", what came of it (a value, or the class of the exception), and behind " | " the words of
 * an exception. At the end come lines of what is there: "= path", its attributes, and a digest of its bytes.
 *
 * <p>Usage: RandomCalls host:port seed calls
 */
public class RandomCalls {
  static final int BLOCK_BYTES = 4096;
  /** Where all happens, in the last one with quotas. */
  static final String[] TOPS = {"/r", "/s", "/q"};
  static final String[] NAMES = {"a", "b", "c"};
  static final String[] POLICIES = {"HOT", "COLD", "ONE_SSD", "ALL_SSD", "WARM", "NONE"};
  static final String[] ACLS = {
    "user:alice:rwx", "user:bob:r--", "group:staff:r-x", "mask::r--", "default:user:alice:rwx", "default:group::r-x", "other::---", "group::rw-"
  };

  interface Call {
    Object run() throws Exception;
  }

  final Random random;
  final DistributedFileSystem root, alice;
  /** Files that were begun and not closed, by path and user. */
  final Map<String, FSDataOutputStream> open = new TreeMap<>();
  DistributedFileSystem files;
  String who;

  RandomCalls(String address, long seed) throws Exception {
    random = new Random(seed);
    URI uri = URI.create("hdfs://" + address);
    Configuration configuration = new Configuration();
    configuration.set("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER");
    root = (DistributedFileSystem) FileSystem.newInstance(uri, configuration, "root");
    alice = (DistributedFileSystem) FileSystem.newInstance(uri, configuration, "alice");
  }

  /** A path of one to three names below one of the directories. */
  Path path() {
    StringBuilder path = new StringBuilder(TOPS[Math.max(0, random.nextInt(7) - 4)]);
    for (int depth = random.nextInt(3); depth >= 0; depth--) path.append('/').append(NAMES[random.nextInt(NAMES.length)]);
    return new Path(path.toString());
  }

  byte[] bytes(int most) {
    byte[] bytes = new byte[random.nextInt(most)];
    random.nextBytes(bytes);
    return bytes;
  }

  FsPermission permission() {
    return new FsPermission((short) new int[] {0755, 0777, 0700, 0750, 0644, 0600, 01777, 0555, 0}[random.nextInt(9)]);
  }

  void say(int number, String what, Call call) {
    String outcome;
    try {
      outcome = String.valueOf(call.run());
    } catch (Throwable thrown) {
      Throwable cause = thrown instanceof RemoteException remote ? remote.unwrapRemoteException() : thrown;
      String name = cause instanceof RemoteException remote ? remote.getClassName() : cause.getClass().getName();
      outcome = name.substring(name.lastIndexOf('.') + 1) + " | " + String.valueOf(cause.getMessage()).lines().findFirst().orElse("");
    }
    System.out.println(number + " " + who + " " + what + " -> " + outcome);
  }

  /** Waits until a block that is cut, or whose writer was ended, is whole. */
  Object closed(Path path) throws Exception {
    for (int tries = 0; tries < 300; tries++) {
      if (root.isFileClosed(path)) return "closed";
      Thread.sleep(200);
    }
    return "open";
  }

  void step(int number) {
    boolean isRoot = random.nextInt(3) > 0;
    files = isRoot ? root : alice;
    who = isRoot ? "root" : "alice";
    DistributedFileSystem fs = files;
    Path one = path(), two = path(), three = path();
    FsPermission permission = permission();
    byte[] bytes = bytes(3 * BLOCK_BYTES);
    // Where quotas are HDFS removes what is to be replaced, and may then refuse what was to take its place.
    boolean flag = random.nextBoolean() && !one.toString().startsWith("/q");
    int small = random.nextInt(6), kind = random.nextInt(112);
    String key = who + " " + one;
    if (kind < 12) {
      say(number, "mkdirs " + one + " " + permission, () -> fs.mkdirs(one, permission));
    } else if (kind < 14) {
      say(number, "mkdir " + one, () -> fs.mkdir(one, permission));
    } else if (kind < 28) {
      say(number, "create " + one + " " + flag + " " + small + " " + bytes.length, () -> {
        try (OutputStream out = fs.create(one, permission, flag, 512, (short) small, BLOCK_BYTES, null)) {
          out.write(bytes);
        }
        return "written";
      });
    } else if (kind < 30) {
      say(number, "createNonRecursive " + one + " " + flag, () -> {
        EnumSet<CreateFlag> how = flag ? EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE) : EnumSet.of(CreateFlag.CREATE);
        try (OutputStream out = fs.createNonRecursive(one, permission, how, 512, (short) 2, BLOCK_BYTES, null)) {
          out.write(bytes);
        }
        return "written";
      });
    } else if (kind < 34) {
      say(number, "begin " + one + " " + bytes.length, () -> {
        FSDataOutputStream out = fs.create(one, permission, flag, 512, (short) 2, BLOCK_BYTES, null);
        FSDataOutputStream before = open.put(key, out);
        if (before != null) abandon(before);
        out.write(bytes);
        out.hflush();
        return "flushed";
      });
    } else if (kind < 39) {
      List<String> keys = new ArrayList<>(open.keySet());
      if (keys.isEmpty()) return;
      String chosen = keys.get(small % keys.size());
      FSDataOutputStream out = open.remove(chosen);
      say(number, "close " + chosen, () -> {
        out.close();
        return "closed";
      });
    } else if (kind < 46) {
      say(number, "append " + one + " " + bytes.length, () -> {
        try (OutputStream out = fs.append(one)) {
          out.write(bytes);
        }
        return "appended";
      });
    } else if (kind < 50) {
      int length = flag ? small * BLOCK_BYTES : random.nextInt(4 * BLOCK_BYTES);
      say(number, "truncate " + one + " " + length, () -> fs.truncate(one, length) + " " + closed(one));
    } else if (kind < 54) {
      Path[] parts = small < 2 ? new Path[] {two} : small < 5 ? new Path[] {two, three} : new Path[] {};
      say(number, "concat " + one + " " + Arrays.toString(parts), () -> {
        fs.concat(one, parts);
        return "joined";
      });
    } else if (kind < 60) {
      say(number, "rename " + one + " " + two, () -> fs.rename(one, two));
    } else if (kind < 66) {
      say(number, "rename2 " + one + " " + two + " " + flag, () -> {
        fs.rename(one, two, flag ? Options.Rename.OVERWRITE : Options.Rename.NONE);
        return "renamed";
      });
    } else if (kind < 71) {
      say(number, "delete " + one + " " + flag, () -> fs.delete(one, flag));
    } else if (kind < 73) {
      say(number, "setReplication " + one + " " + small, () -> fs.setReplication(one, (short) small));
    } else if (kind < 76) {
      say(number, "setPermission " + one + " " + permission, () -> {
        fs.setPermission(one, permission);
        return "set";
      });
    } else if (kind < 78) {
      String owner = flag ? "alice" : "root", group = small < 3 ? "staff" : null;
      say(number, "setOwner " + one + " " + owner + " " + group, () -> {
        fs.setOwner(one, owner, group);
        return "set";
      });
    } else if (kind < 79) {
      say(number, "setTimes " + one, () -> {
        fs.setTimes(one, 1_000_000L + small, flag ? -1 : 5);
        return "set";
      });
    } else if (kind < 82) {
      long names = new long[] {-1, 1, 3, 100, 0, Long.MAX_VALUE}[small], space = flag ? -1 : new long[] {1, 50_000, 1_000_000}[small % 3];
      Path limited = new Path(one.toString().replaceFirst("/.", "/q"));
      say(number, "setQuota " + limited + " " + names + " " + space, () -> {
        fs.setQuota(limited, names, space);
        return "set";
      });
    } else if (kind < 85) {
      String name = new String[] {"user.x", "user.y", "trusted.z", "system.q", "wrong", "raw.r"}[small];
      EnumSet<XAttrSetFlag> how = flag ? EnumSet.of(XAttrSetFlag.CREATE) : EnumSet.of(XAttrSetFlag.CREATE, XAttrSetFlag.REPLACE);
      byte[] value = Arrays.copyOf(bytes, Math.min(bytes.length, 20));
      say(number, "setXAttr " + one + " " + name + " " + flag, () -> {
        fs.setXAttr(one, name, value, how);
        return "set";
      });
    } else if (kind < 87) {
      String name = new String[] {"user.x", "user.y", "trusted.z"}[small % 3];
      say(number, "removeXAttr " + one + " " + name, () -> {
        fs.removeXAttr(one, name);
        return "removed";
      });
    } else if (kind < 88) {
      String name = new String[] {"user.x", "user.y", "trusted.z"}[small % 3];
      say(number, "getXAttr " + one + " " + name, () -> HexFormat.of().formatHex(fs.getXAttr(one, name)));
    } else if (kind < 92) {
      List<AclEntry> entries = AclEntry.parseAclSpec(ACLS[random.nextInt(ACLS.length)] + "," + ACLS[random.nextInt(ACLS.length)], true);
      String[] whole = {"user::rwx,group::r-x,other::r--", "user::rwx,group::rw-,other::---,user:alice:rwx", "user::rwx"};
      switch (small) {
        case 0, 1 -> say(number, "modifyAclEntries " + one + " " + entries, () -> {
          fs.modifyAclEntries(one, entries);
          return "set";
        });
        case 2 -> say(number, "setAcl " + one + " " + whole[kind % 3], () -> {
          fs.setAcl(one, AclEntry.parseAclSpec(whole[kind % 3], true));
          return "set";
        });
        case 3 -> say(number, "removeAclEntries " + one, () -> {
          fs.removeAclEntries(one, AclEntry.parseAclSpec(flag ? "user:alice" : "default:user:alice,mask:", false));
          return "removed";
        });
        case 4 -> say(number, "removeDefaultAcl " + one, () -> {
          fs.removeDefaultAcl(one);
          return "removed";
        });
        default -> say(number, "removeAcl " + one, () -> {
          fs.removeAcl(one);
          return "removed";
        });
      }
    } else if (kind < 94) {
      String policy = POLICIES[small];
      if (small == 1) return; // Nothing can be written with it where there are disks only.
      say(number, "setStoragePolicy " + one + " " + policy, () -> {
        if (flag) fs.setStoragePolicy(one, policy);
        else fs.unsetStoragePolicy(one);
        return fs.getStoragePolicy(one).getName();
      });
    } else if (kind < 96) {
      say(number, "recoverLease " + one, () -> {
        boolean isClosed = fs.recoverLease(one);
        return isClosed ? "closed" : closed(one);
      });
    } else if (kind < 98) {
      say(number, "setErasureCodingPolicy " + one, () -> {
        String name = small == 0 ? "XOR-2-1-1024k" : small == 1 ? "RS-9-9-1k" : "RS-10-4-1024k";
        if (flag) fs.setErasureCodingPolicy(one, name);
        else fs.unsetErasureCodingPolicy(one);
        return "set";
      });
    } else if (kind < 101) {
      say(number, "getFileStatus " + one, () -> shown(fs.getFileStatus(one)));
    } else if (kind < 103) {
      say(number, "listStatus " + one, () -> Arrays.stream(fs.listStatus(one)).map(status -> status.getPath().getName()).toList());
    } else if (kind < 105) {
      say(number, "getContentSummary " + one, () -> {
        ContentSummary summary = fs.getContentSummary(one);
        return summary.getLength() + " " + summary.getFileCount() + " " + summary.getDirectoryCount() + " " + summary.getSpaceConsumed();
      });
    } else if (kind < 106) {
      say(number, "getFileChecksum " + one, () -> fs.getFileChecksum(one));
    } else if (kind < 108) {
      FsAction action = FsAction.values()[random.nextInt(8)];
      say(number, "access " + one + " " + action, () -> {
        fs.access(one, action);
        return "granted";
      });
    } else if (kind < 110) {
      int at = random.nextInt(3 * BLOCK_BYTES);
      say(number, "read " + one + " from " + at, () -> {
        try (FSDataInputStream in = fs.open(one)) {
          byte[] found = new byte[1000];
          int count = in.read(at, found, 0, found.length);
          return count + " " + digest(count > 0 ? Arrays.copyOf(found, count) : new byte[0]);
        }
      });
    } else {
      say(number, "isFileClosed " + one, () -> fs.isFileClosed(one));
    }
  }

  /** Forgets a stream whose file was begun again: a later close would say so. */
  static void abandon(FSDataOutputStream stream) {
    try {
      stream.close();
    } catch (IOException ignored) {
      // It was replaced.
    }
  }

  static String digest(byte[] bytes) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(bytes));
  }

  static String shown(FileStatus status) {
    String form = status.isErasureCoded() ? " coded" : "";
    return (status.isDirectory() ? "directory" : "file " + status.getLen() + " " + status.getReplication() + " " + status.getBlockSize())
        + " " + status.getPermission() + " " + status.getOwner() + " " + status.getGroup() + (status.hasAcl() ? " acl" : "") + form;
  }

  /** Shows what is at a path and below it. */
  void show(FileStatus status) throws Exception {
    Path path = status.getPath();
    StringBuilder line = new StringBuilder("= " + path.toUri().getPath() + " " + shown(status));
    TreeMap<String, String> attributes = new TreeMap<>();
    root.getXAttrs(path).forEach((name, value) -> attributes.put(name, HexFormat.of().formatHex(value)));
    line.append(" ").append(attributes).append(" ").append(root.getAclStatus(path).getEntries());
    line.append(" ").append(root.getStoragePolicy(path).getName());
    if (status.isDirectory()) {
      QuotaUsage usage = root.getQuotaUsage(path);
      line.append(" quota ").append(usage.getQuota()).append(" ").append(usage.getSpaceQuota());
      line.append(" used ").append(usage.getFileAndDirectoryCount()).append(" ").append(usage.getSpaceConsumed());
      System.out.println(line);
      FileStatus[] below = root.listStatus(path);
      Arrays.sort(below);
      for (FileStatus each : below) show(each);
      return;
    }
    byte[] content = new byte[(int) status.getLen()];
    try (FSDataInputStream in = root.open(path)) {
      in.readFully(0, content);
    }
    line.append(" closed ").append(root.isFileClosed(path)).append(" ").append(digest(content));
    System.out.println(line);
  }

  public static void main(String[] arguments) throws Exception {
    RandomCalls calls = new RandomCalls(arguments[0], Long.parseLong(arguments[1]));
    for (String top : TOPS) {
      calls.root.mkdirs(new Path(top));
      // The client's umask does not count here.
      calls.root.setPermission(new Path(top), new FsPermission((short) 0777));
    }
    for (int number = 0; number < Integer.parseInt(arguments[2]); number++) calls.step(number);
    calls.who = "root";
    for (String top : TOPS) {
      calls.say(-1, "show " + top, () -> {
        calls.show(calls.root.getFileStatus(new Path(top)));
        return "shown";
      });
    }
    System.out.flush();
    System.exit(0);
  }
}
