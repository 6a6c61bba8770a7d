package tallyboard.kernel;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.streaming.MapState;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The kernel without Spark: one bucket's log in, its records out. Every so many records the bucket is
 * given up and read again out of its state, as after a restart; in between, batches end.
 *
 * <p>In: plan, bucket, records of a batch, batches until a restart, number of records, records, the
 * state to begin with. Out: rows, the state at the end. Texts and bytes after their length, -1 for
 * null.
 */
public final class Replay {
  private static final DataInputStream IN =
      new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
  private static final DataOutputStream OUT =
      new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20));

  public static void main(String[] arguments) throws IOException {
    for (int logs = IN.readInt(); logs > 0; logs--) one();
    OUT.flush();
  }

  private static void one() throws IOException {
    Plan plan = Plan.parse(text());
    String name = text();
    int batch = IN.readInt();
    int restart = IN.readInt();
    List<SourceRow> rows = new ArrayList<>();
    for (int left = IN.readInt(); left > 0; left--) rows.add(row());
    byte[][] kept = {bytes()};
    Memory entries = new Memory();
    for (int left = IN.readInt(); left > 0; left--) entries.updateValue(text(), bytes());
    Memory timers = new Memory();
    Memory last = new Memory();
    if (kept[0] == null && plan.seedOf(name) != null) {
      kept[0] = InitialState.load(plan.seedOf(name), null, entries, last);
    }
    Run run = null;
    String[] rule = {plan.ruleOf(name)};
    int batches = 0;
    for (int from = 0; from < rows.size(); from += batch, batches++) {
      if (run == null || batches % restart == 0) {
        run = new Run(plan, name, rule[0], "replay");
        if (kept[0] == null) run.over(entries, timers, last);
        else run.load(kept[0], entries, timers, last);
      } else if (!run.standsAt(kept[0])) {
        throw new IllegalStateException("the bucket does not stand where it left off");
      }
      Iterator<SourceRow> some = rows.subList(from, Math.min(rows.size(), from + batch)).iterator();
      run.apply(some, ended -> {
        kept[0] = ended.meta();
        String changed = ended.newRule();
        if (changed != null) rule[0] = changed;
      }).forEachRemaining(Replay::write);
    }
    OUT.writeInt(-2);
    put(kept[0]);
    OUT.writeInt(entries.entries.size());
    for (Map.Entry<String, byte[]> entry : entries.entries.entrySet()) {
      put(Sink.bytes(entry.getKey()));
      put(entry.getValue());
    }
  }

  private static SourceRow row() throws IOException {
    return new SourceRow(bytes(), bytes(), IN.readLong(), IN.readLong(), headers());
  }

  private static List<Header> headers() throws IOException {
    Header[] headers = new Header[IN.readInt()];
    for (int i = 0; i < headers.length; i++) headers[i] = new Header(text(), bytes());
    return List.of(headers);
  }

  private static String text() throws IOException {
    return new String(bytes(), StandardCharsets.UTF_8);
  }

  private static byte[] bytes() throws IOException {
    int length = IN.readInt();
    return length < 0 ? null : IN.readNBytes(length);
  }

  private static void write(SinkRecord record) {
    try {
      put(Sink.bytes(record.topic()));
      put(record.key());
      put(record.value());
      Header[] headers = record.headers() == null ? new Header[0] : record.headers();
      OUT.writeInt(headers.length);
      for (Header header : headers) {
        put(Sink.bytes(header.name()));
        put(header.value());
      }
      OUT.writeInt(record.partition() == null ? -1 : record.partition());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void put(byte[] bytes) throws IOException {
    OUT.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) OUT.write(bytes);
  }

  /** A MapState in memory. */
  private static final class Memory implements MapState<String, byte[]> {
    private final Map<String, byte[]> entries = new HashMap<>();

    @Override
    public boolean exists() {
      return !entries.isEmpty();
    }

    @Override
    public byte[] getValue(String key) {
      return entries.get(key);
    }

    @Override
    public boolean containsKey(String key) {
      return entries.containsKey(key);
    }

    @Override
    public void updateValue(String key, byte[] value) {
      entries.put(key, value);
    }

    @Override
    public scala.collection.Iterator<Tuple2<String, byte[]>> iterator() {
      return CollectionConverters.asScala(
          entries.entrySet().stream().map(e -> new Tuple2<>(e.getKey(), e.getValue())).iterator());
    }

    @Override
    public scala.collection.Iterator<String> keys() {
      return CollectionConverters.asScala(entries.keySet().iterator());
    }

    @Override
    public scala.collection.Iterator<byte[]> values() {
      return CollectionConverters.asScala(entries.values().iterator());
    }

    @Override
    public void removeKey(String key) {
      entries.remove(key);
    }

    @Override
    public void clear() {
      entries.clear();
    }
  }
}
