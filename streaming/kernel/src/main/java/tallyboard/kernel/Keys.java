package tallyboard.kernel;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The keys that sign commands, as wire/keys.py writes them; read anew when their file changes. */
final class Keys {
  /** It counts for records appended at `since` or later, and before `until`; ms. */
  record Key(String secret, long since, long until) {}

  /** The keys as the file had them in this state. */
  private record Read(Object seen, Map<String, Key> keys) {}

  static final long NEVER = -1;
  private static final Map<Path, Read> READ = new ConcurrentHashMap<>();

  private Keys() {}

  /** Returns the keys of a file by their ids, as it is now. */
  static Map<String, Key> of(Path path) throws IOException {
    BasicFileAttributes file = Files.readAttributes(path, BasicFileAttributes.class);
    Object seen = List.of(file.lastModifiedTime(), file.size(), String.valueOf(file.fileKey()));
    Read known = READ.get(path);
    if (known == null || !known.seen.equals(seen)) {
      known = new Read(seen, parse(Files.readAllBytes(path)));
      READ.put(path, known);
    }
    return known.keys;
  }

  private static Map<String, Key> parse(byte[] data) throws IOException {
    try {
      Map<?, ?> ring = (Map<?, ?>) Json.read(data).value();
      Map<String, Key> keys = new HashMap<>();
      for (Object each : (List<?>) ring.get("keys")) {
        Map<?, ?> key = (Map<?, ?>) each;
        keys.put((String) key.get("id"), new Key((String) key.get("secret"),
            time(key.get("from"), 0), time(key.get("until"), NEVER)));
      }
      return keys;
    } catch (Json.Bad | ClassCastException | NullPointerException error) {
      throw new IOException("expected keys as JSON");
    }
  }

  private static long time(Object value, long usual) {
    return value == null ? usual : (Long) value;
  }
}
