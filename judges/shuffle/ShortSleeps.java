import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;

/**
 * A Java agent that lets the Celeborn client wake after 1 ms where it sleeps for 50, to tell how much of the time that a remote
 * shuffle takes is the client's own sleep. Most of these sleeps have no setting.
 *
 * <p>It changes the client, so nothing is judged by it: what the client counts in sleeps of 50 ms times out fifty times as soon.
 */
public final class ShortSleeps {
  private static final int UTF8 = 1, LONG = 5, DOUBLE = 6, CLASS = 7, METHOD = 10;

  public static void premain(String arguments, Instrumentation instrumentation) {
    instrumentation.addTransformer(
        new ClassFileTransformer() {
          @Override
          public byte[] transform(
              ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
            boolean isClients =
                name != null
                    && (name.startsWith("org/apache/celeborn/") || name.startsWith("org/apache/spark/shuffle/celeborn/"))
                    && !name.contains("/shaded/");
            try {
              return isClients ? redirected(bytes) : null;
            } catch (IOException error) {
              throw new UncheckedIOException(error);
            }
          }
        });
  }

  /** What the client calls instead of {@code Thread.sleep}. */
  public static void sleep(long milliseconds) throws InterruptedException {
    Thread.sleep(milliseconds == 50 ? 1 : milliseconds);
  }

  /** The class with its calls of {@code Thread.sleep} redirected to this one, or null if it has none. */
  private static byte[] redirected(byte[] bytes) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
    in.skipBytes(8); // magic and version
    int count = in.readUnsignedShort();
    Object[] texts = new Object[count];
    int[][] pairs = new int[count][];
    int[] tags = new int[count], places = new int[count];
    for (int at = 1; at < count; at++) {
      tags[at] = in.readUnsignedByte();
      places[at] = bytes.length - in.available();
      switch (tags[at]) {
        case UTF8 -> texts[at] = in.readUTF();
        // Also strings, method types, modules and packages.
        case CLASS, 8, 16, 19, 20 -> pairs[at] = new int[] {in.readUnsignedShort()};
        case 15 -> in.skipBytes(3); // a method handle
        case LONG, DOUBLE -> {
          in.skipBytes(8);
          at++; // they take two entries
        }
        default -> pairs[at] = new int[] {in.readUnsignedShort(), in.readUnsignedShort()};
      }
    }
    int end = bytes.length - in.available();
    byte[] body = bytes.clone();
    boolean isRedirected = false;
    for (int at = 1; at < count; at++) {
      if (tags[at] != METHOD || !"java/lang/Thread".equals(texts[pairs[pairs[at][0]][0]])) continue;
      int[] nameAndType = pairs[pairs[at][1]];
      if (!"sleep".equals(texts[nameAndType[0]]) || !"(J)V".equals(texts[nameAndType[1]])) continue;
      int owner = count + 1; // the second of the two entries that are added below
      body[places[at]] = (byte) (owner >> 8);
      body[places[at] + 1] = (byte) owner;
      isRedirected = true;
    }
    if (!isRedirected) return null;
    ByteArrayOutputStream changed = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(changed);
    out.write(body, 0, 8);
    out.writeShort(count + 2);
    out.write(body, 10, end - 10);
    out.writeByte(UTF8);
    out.writeUTF("ShortSleeps");
    out.writeByte(CLASS);
    out.writeShort(count);
    out.write(body, end, body.length - end);
    return changed.toByteArray();
  }
}
