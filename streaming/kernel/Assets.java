package tallyboard.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.spark.sql.streaming.MapState;
import scala.Tuple2;

/**
 * A bucket's assets over Spark's state, one entry each, and the transient index of what is due.
 *
 * <p>The index looks at an asset at the time that is noted in its entry: when it is next due, or
 * before. So a due that only moves away, as a vote's expiry does with each report, costs no write.
 */
final class Assets implements Bucket.Store {
  /** Most assets kept in memory between two batches, per bucket. */
  private static final int MAX_READ = 50_000;

  private record Noted(long time, String name) implements Comparable<Noted> {
    @Override
    public int compareTo(Noted other) {
      return Long.compare(time, other.time);
    }
  }

  private final Map<String, Asset> read = new HashMap<>();
  private final Set<String> changed = new HashSet<>();
  private final PriorityQueue<Noted> index = new PriorityQueue<>();
  private MapState<String, byte[]> entries;
  private int waiting;

  /** From now on the state is read and written through `entries`, which hold what they held. */
  void over(MapState<String, byte[]> entries) {
    this.entries = entries;
  }

  /** Reads the index out of the state. */
  void load() {
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
    Asset asset = read.get(name);
    if (asset != null || read.containsKey(name)) return asset;
    byte[] data = entries.getValue(name);
    asset = data == null ? null : Codec.read(data);
    read.put(name, asset);
    return asset;
  }

  @Override
  public void put(String name, Asset asset) {
    read.put(name, asset);
    changed.add(name);
  }

  @Override
  public void remove(String name) {
    Asset asset = get(name);
    if (asset != null && asset.noted != Asset.NONE) waiting--;
    read.put(name, null);
    changed.add(name);
  }

  @Override
  public Iterator<String> names() {
    flush();
    List<String> names = new ArrayList<>();
    scala.jdk.javaapi.CollectionConverters.asJava(entries.keys()).forEachRemaining(names::add);
    return names.iterator();
  }

  @Override
  public void due(String name, Asset asset, Asset.Due due) {
    boolean noted = asset.noted != Asset.NONE;
    if (due == null ? !noted : noted && asset.noted <= due.time()) return;
    waiting += (due == null ? 0 : 1) - (noted ? 1 : 0);
    asset.noted = due == null ? Asset.NONE : due.time();
    if (due != null) index.add(new Noted(due.time(), name));
    changed.add(name);
  }

  @Override
  public String popDue(long upto) {
    while (!index.isEmpty() && index.peek().time <= upto) {
      Noted first = index.poll();
      Asset asset = get(first.name);
      if (asset == null || asset.noted != first.time) continue;
      asset.noted = Asset.NONE;
      waiting--;
      changed.add(first.name);
      return first.name;
    }
    return null;
  }

  /** Assets with something due. */
  int waiting() {
    return waiting;
  }

  /** Writes what has changed. */
  void flush() {
    for (String name : changed) {
      Asset asset = read.get(name);
      if (asset == null) entries.removeKey(name);
      else entries.updateValue(name, Codec.write(asset));
    }
    changed.clear();
    if (read.size() > MAX_READ) read.clear();
  }

  /** Writes what has changed when much is in memory. */
  void relieve() {
    if (read.size() > MAX_READ) flush();
  }
}
