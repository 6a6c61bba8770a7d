package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.streaming.MapState;

/**
 * The timer index of a bucket as the state keeps it: what was put into the index, in chunks, so that
 * a restart reads a few of them instead of every asset. What has left the index is not taken out of
 * the chunks: an entry that is over by the bucket's clock counts only if the head names it, and any
 * other is held against its asset, as in the index itself. Once more is over than not, all is
 * written anew.
 */
final class TimerLog {
  /** An asset, and when to look at it, ms. */
  record Noted(long time, String name) implements Comparable<Noted> {
    @Override
    public int compareTo(Noted other) {
      return Long.compare(time, other.time);
    }
  }

  private static final String HEAD = "head";
  private static final int CHUNK = 1 << 16;
  private static final long LEAST = 10_000;

  private final List<Noted> added = new ArrayList<>();
  private MapState<String, byte[]> chunks;
  private long count;
  private long entries;
  private int waiting;
  /** Whether the chunks hold all of the index. */
  private boolean whole;

  /** From now on the state is read and written through `chunks`. */
  void over(MapState<String, byte[]> chunks) {
    this.chunks = chunks;
  }

  /** Notes down what has been put into the index. */
  void add(Noted noted) {
    added.add(noted);
  }

  /**
   * Returns the index as of this offset and clock, or null where the state holds none of that
   * offset: an earlier release does not write it.
   */
  List<Noted> load(long offset, long clock) {
    byte[] head = chunks.getValue(HEAD);
    if (head == null) return null;
    Frames.Reader in = new Frames.Reader(head);
    if (in.number() != offset) return null;
    waiting = in.integer();
    count = in.number();
    entries = in.number();
    List<Noted> index = new ArrayList<>();
    while (in.hasMore()) index.add(read(in));
    for (long chunk = 0; chunk < count; chunk++) {
      Frames.Reader some = new Frames.Reader(chunks.getValue(key(chunk)));
      while (some.hasMore()) {
        Noted noted = read(some);
        if (noted.time > clock) index.add(noted);
      }
    }
    whole = true;
    return index;
  }

  /** Returns of how many assets the index is that was loaded. */
  int waiting() {
    return waiting;
  }

  /**
   * Writes what has come since. waiting: of how many assets the index is; index: all of it;
   * overdue: what in it is over by the clock.
   */
  void save(long offset, int waiting, Collection<Noted> index, List<Noted> overdue) {
    boolean anew = !whole || entries + added.size() > Math.max(LEAST, 2L * index.size());
    if (anew) clear();
    append(anew ? index : added);
    added.clear();
    whole = true;
    Frames.Writer head = new Frames.Writer(64);
    head.number(offset);
    head.number(waiting);
    head.number(count);
    head.number(entries);
    for (Noted noted : overdue) write(head, noted);
    chunks.updateValue(HEAD, head.take());
  }

  private void clear() {
    for (long chunk = 0; chunk < count; chunk++) chunks.removeKey(key(chunk));
    count = entries = 0;
  }

  private void append(Collection<Noted> some) {
    Frames.Writer out = new Frames.Writer(CHUNK + 1024);
    for (Noted noted : some) {
      write(out, noted);
      if (out.size() >= CHUNK) chunks.updateValue(key(count++), out.take());
    }
    if (out.size() > 0) chunks.updateValue(key(count++), out.take());
    entries += some.size();
  }

  private static String key(long chunk) {
    return Long.toString(chunk);
  }

  private static void write(Frames.Writer out, Noted noted) {
    out.number(noted.time);
    out.bytes(noted.name.getBytes(StandardCharsets.UTF_8));
  }

  private static Noted read(Frames.Reader in) {
    return new Noted(in.number(), in.text());
  }
}
