package tallyboard.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import org.apache.spark.sql.streaming.MapState;
import scala.Tuple2;
import tallyboard.kernel.TimerLog.Noted;

/**
 * A bucket's assets over Spark's state, one entry each, and the transient index of their timers.
 *
 * <p>The index looks at an asset at the time that is noted in its entry: when its next timer fires,
 * or before. So a timer that only moves away, as a vote's expiry does with each report, costs no
 * write.
 */
final class Assets implements Bucket.Store {
  /** Most assets kept in memory between two batches, per bucket. */
  private static final int MAX_READ = 50_000;

  /** A name to look an asset up by: names that differ in digits alone crowd in a HashMap. */
  private record Name(String text) {
    @Override
    public int hashCode() {
      return text.hashCode() * 0x9E3779B9; // Fibonacci hashing: Knuth, TAOCP 6.4
    }
  }

  /** An asset in memory, or null for one that the state does not hold. */
  private static final class Entry {
    private final String name;
    private Asset asset;
    private boolean changed;

    Entry(String name) {
      this.name = name;
    }
  }

  private final Map<Name, Entry> read = new HashMap<>();
  private final List<Entry> changed = new ArrayList<>();
  private PriorityQueue<Noted> index = new PriorityQueue<>();
  private final TimerLog log = new TimerLog();
  private MapState<String, byte[]> entries;
  private int waiting;
  private Entry last = new Entry("");
  /**
   * Of all assets that the state may hold, in a bucket that has been in memory since it was empty;
   * or null. Names that are new, as in a log that is read anew, then cost no search.
   */
  private NameSet names = new NameSet();

  /** From now on the state is read and written through these, which hold what they held. */
  void over(MapState<String, byte[]> entries, MapState<String, byte[]> timers) {
    this.entries = entries;
    log.over(timers);
  }

  /** Reads the index as of this offset and clock out of the state. */
  void load(long offset, long clock) {
    names = null;
    List<Noted> stored = log.load(offset, clock);
    if (stored == null) {
      collect();
      return;
    }
    index = new PriorityQueue<>(stored);
    waiting = log.waiting();
  }

  private void collect() {
    Iterator<Tuple2<String, byte[]>> all =
        scala.jdk.javaapi.CollectionConverters.asJava(entries.iterator());
    all.forEachRemaining(entry -> {
      long noted = Codec.noted(entry._2());
      if (noted == Asset.NONE) return;
      index.add(new Noted(noted, entry._1()));
      waiting++;
    });
  }

  @Override
  public Asset get(String name) {
    return entry(name).asset;
  }

  private Entry entry(String name) {
    if (!last.name.equals(name)) last = read.computeIfAbsent(new Name(name), this::read);
    return last;
  }

  private Entry read(Name name) {
    Entry entry = new Entry(name.text);
    if (names != null && !names.mayHold(name.text)) return entry;
    byte[] data = entries.getValue(name.text);
    if (data != null) entry.asset = Codec.read(data);
    return entry;
  }

  @Override
  public void put(String name, Asset asset) {
    Entry entry = entry(name);
    entry.asset = asset;
    mark(entry);
  }

  @Override
  public void remove(String name) {
    Entry entry = entry(name);
    if (entry.asset != null && entry.asset.noted != Asset.NONE) waiting--;
    entry.asset = null;
    mark(entry);
  }

  private void mark(Entry entry) {
    if (!entry.changed) changed.add(entry);
    entry.changed = true;
  }

  @Override
  public Iterator<String> names() {
    flush();
    List<String> names = new ArrayList<>();
    scala.jdk.javaapi.CollectionConverters.asJava(entries.keys()).forEachRemaining(names::add);
    return names.iterator();
  }

  @Override
  public void setTimer(String name, Asset asset, Asset.Timer timer) {
    boolean noted = asset.noted != Asset.NONE;
    if (timer == null ? !noted : noted && asset.noted <= timer.time()) return;
    waiting += (timer == null ? 0 : 1) - (noted ? 1 : 0);
    asset.noted = timer == null ? Asset.NONE : timer.time();
    if (timer != null) {
      Noted when = new Noted(timer.time(), name);
      index.add(when);
      log.add(when);
    }
    mark(entry(name));
  }

  @Override
  public String popTimer(long upto) {
    while (!index.isEmpty() && index.peek().time() <= upto) {
      Noted first = index.poll();
      Asset asset = get(first.name());
      if (asset == null || asset.noted != first.time()) continue;
      asset.noted = Asset.NONE;
      waiting--;
      mark(entry(first.name()));
      return first.name();
    }
    return null;
  }

  /** Returns the number of assets with a timer. */
  int waiting() {
    return waiting;
  }

  /** Returns a time, ms, before which no timer fires; 0 where none waits. */
  long earliest() {
    return index.isEmpty() ? 0 : index.peek().time();
  }

  /** Writes what has changed, and the index as of this offset and clock. */
  void flush(long offset, long clock) {
    flush();
    List<Noted> overdue = new ArrayList<>();
    while (!index.isEmpty() && index.peek().time() <= clock) overdue.add(index.poll());
    index.addAll(overdue);
    log.save(offset, waiting, index, overdue);
  }

  private void flush() {
    for (Entry entry : changed) {
      entry.changed = false;
      if (entry.asset == null) entries.removeKey(entry.name);
      else write(entry);
    }
    changed.clear();
    if (read.size() <= MAX_READ) return;
    read.clear();
    last = new Entry("");
  }

  private void write(Entry entry) {
    if (names != null) names.add(entry.name);
    entries.updateValue(entry.name, Codec.write(entry.asset));
  }

  /** Writes what has changed when much is in memory. */
  void relieve() {
    if (read.size() > MAX_READ) flush();
  }
}
