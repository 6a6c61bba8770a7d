package tallyboard.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.streaming.MapState;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The last record of each asset, while the log is read up to where readers have been before: they
 * would see the past otherwise. streaming/state/restore.py, to the byte.
 */
final class SuppressedOutput {
  private static final int MAX_FRESH = 50_000;

  private final long upto;
  private final Map<String, SinkRecord> fresh = new HashMap<>();
  private MapState<String, byte[]> entries;

  /** upto: the last offset whose records are suppressed, -1 for none. */
  SuppressedOutput(long upto) {
    this.upto = upto;
  }

  /** From now on the state is read and written through `entries`. */
  void over(MapState<String, byte[]> entries) {
    this.entries = entries;
  }

  boolean covers(long offset) {
    return offset <= upto;
  }

  void put(String name, SinkRecord record) {
    fresh.put(name, record);
    if (fresh.size() > MAX_FRESH) flush();
  }

  /** Whether all is to be emitted before the record at `offset`, the one after `reached`. */
  boolean endsBefore(long offset, long reached) {
    return reached <= upto && upto < offset;
  }

  /** Takes out all that was suppressed, for this topic. */
  List<SinkRecord> release(String topic) {
    flush();
    List<SinkRecord> records = new ArrayList<>();
    Iterator<Tuple2<String, byte[]>> all = CollectionConverters.asJava(entries.iterator());
    all.forEachRemaining(entry -> records.add(unpack(entry._1(), entry._2(), topic)));
    entries.clear();
    return records;
  }

  void flush() {
    fresh.forEach((name, record) -> entries.updateValue(name, pack(record)));
    fresh.clear();
  }

  // ---- a record as frames: its value, then name and value of each header ----

  private static byte[] pack(SinkRecord record) {
    Frames.Writer out = new Frames.Writer(1024);
    out.bytes(record.value());
    if (record.headers() != null) {
      for (Header header : record.headers()) {
        out.text(header.name());
        out.bytes(header.value());
      }
    }
    return out.take();
  }

  private static SinkRecord unpack(String name, byte[] data, String topic) {
    Frames.Reader in = new Frames.Reader(data);
    byte[] value = in.bytes();
    List<Header> headers = new ArrayList<>();
    while (in.hasMore()) headers.add(new Header(in.text(), in.bytes()));
    return new SinkRecord(Sink.bytes(name), value, headers.toArray(Header[]::new), topic);
  }
}
