package tallyboard.kernel;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.streaming.MapState;

/** A bucket's state as a file: streaming/state/restore.py writes it. */
final class InitialState {
  private InitialState() {}

  /**
   * Puts a file's entries into an empty state; returns what belongs beside them. files: how Hadoop
   * reaches it, null for a local path.
   */
  static byte[] load(String path, Configuration files, MapState<String, byte[]> assets,
      MapState<String, byte[]> last) {
    try (DataInputStream in =
        new DataInputStream(new BufferedInputStream(open(path, files), 1 << 16))) {
      byte[] meta = frame(in);
      entries(in, assets);
      entries(in, last);
      return meta;
    } catch (IOException error) {
      throw new UncheckedIOException("UnreadableSeed: " + path, error);
    }
  }

  private static InputStream open(String path, Configuration files) throws IOException {
    if (files == null) return Files.newInputStream(Path.of(path));
    org.apache.hadoop.fs.Path place = new org.apache.hadoop.fs.Path(path);
    return place.getFileSystem(files).open(place);
  }

  private static void entries(DataInputStream in, MapState<String, byte[]> to) throws IOException {
    for (byte[] name = frame(in); name != null; name = frame(in)) {
      to.updateValue(new String(name, StandardCharsets.UTF_8), frame(in));
    }
  }

  private static byte[] frame(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length < 0 ? null : in.readNBytes(length);
  }
}
