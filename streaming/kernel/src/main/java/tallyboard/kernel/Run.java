package tallyboard.kernel;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.streaming.MapState;

/** One bucket at work: rows in, records for the sink topics out, one batch after the other. */
final class Run implements Bucket.Out {
  private static final long HEARTBEAT_MS = 1000;
  private static final byte META_PLAIN = 1;
  private static final byte META_MUTES = 2;
  private static final byte META_LATENESS = 3;

  /**
   * The bucket's clock, offset and figures, which the state keeps beside its assets; in version 2
   * its mutes after them, as JSON, where there are some (mutes: empty where there are none); in
   * version 3 its late reports, as JSON after their length, and then the mutes.
   */
  private record Meta(long clock, long offset, long live, long beat, long records, long dead,
      String lateness, String mutes) {
    byte[] bytes() {
      byte[] muted = Sink.bytes(mutes);
      byte[] late = Sink.bytes(lateness);
      boolean plain = late.length == 0;
      byte version = !plain ? META_LATENESS : muted.length == 0 ? META_PLAIN : META_MUTES;
      ByteBuffer out = ByteBuffer.allocate(57 + (plain ? 0 : 4 + late.length) + muted.length);
      out.put(version).putLong(clock).putLong(offset).putLong(live).putLong(beat);
      out.putLong(records).putLong(dead).putLong(0); // stale reports, before version 3
      if (!plain) out.putInt(late.length).put(late);
      return out.put(muted).array();
    }

    static Meta of(byte[] data) {
      ByteBuffer in = ByteBuffer.wrap(data);
      byte version = in.get();
      if (version < META_PLAIN || version > META_LATENESS) {
        throw new IllegalStateException("UnreadableAsset: a bucket of codec version " + version);
      }
      long[] figures = new long[7];
      for (int i = 0; i < figures.length; i++) figures[i] = in.getLong();
      byte[] late = new byte[version == META_LATENESS ? in.getInt() : 0];
      in.get(late);
      return new Meta(figures[0], figures[1], figures[2], figures[3], figures[4], figures[5],
          new String(late, StandardCharsets.UTF_8), StandardCharsets.UTF_8.decode(in).toString());
    }
  }

  private final Plan plan;
  private final String executor;
  private final String scenario;
  private final int partitions;
  private final String reports;
  private final String states;
  /** Or null, where nobody looks at signatures. */
  private final Trust trust;
  private final Assets assets = new Assets();
  private final Bucket bucket;
  private final SuppressedOutput suppressed;
  private final List<List<Object>> bounds;
  private final Deque<SinkRecord> out = new ArrayDeque<>();
  private SourceRow current;
  /** Of the current row, not applied yet; or null. */
  private Source.Entry entry;
  private long beat;
  private long records;
  private long dead;
  private boolean sound = true;
  private String storedRule;

  /** The bucket of this name, with nothing in it yet. rule: as JSON; executor: where it runs. */
  Run(Plan plan, String name, String rule, String executor) {
    this.plan = plan;
    this.executor = executor;
    int slash = name.lastIndexOf('/');
    scenario = name.substring(0, slash);
    partitions = plan.partitionsOf(scenario);
    reports = plan.prefix() + scenario + ".reports";
    states = plan.prefix() + scenario + ".states";
    trust = plan.keys() == null ? null : plan.trustOf(scenario);
    suppressed = new SuppressedOutput(plan.quietOf(name));
    bounds = plan.boundsOf(name);
    bucket = new Bucket(read(rule), Integer.parseInt(name.substring(slash + 1)), assets, this);
  }

  private static Rule read(String rule) {
    try {
      return Rule.parse(rule);
    } catch (Rule.Bad error) {
      throw new IllegalArgumentException("not a scenario: " + rule, error);
    }
  }

  // ---- between the batches ----

  /** Goes on from the state: `meta` as `meta()` gave it, the assets' entries, and their timers. */
  void load(byte[] meta, MapState<String, byte[]> entries, MapState<String, byte[]> timers,
      MapState<String, byte[]> last) {
    Meta kept = Meta.of(meta);
    bucket.clock = kept.clock;
    bucket.offset = kept.offset;
    bucket.live = kept.live;
    if (!kept.lateness.isEmpty()) bucket.lateness.load(kept.lateness);
    if (!kept.mutes.isEmpty()) bucket.mutes.load(kept.mutes);
    beat = kept.beat;
    records = kept.records;
    dead = kept.dead;
    storedRule = bucket.rule.text;
    over(entries, timers, last);
    assets.load(bucket.offset, bucket.clock);
  }

  /** Goes on with the same assets, through the entries of a new batch. */
  void over(MapState<String, byte[]> entries, MapState<String, byte[]> timers,
      MapState<String, byte[]> last) {
    assets.over(entries, timers);
    suppressed.over(last);
  }

  byte[] meta() {
    return new Meta(bucket.clock, bucket.offset, bucket.live, beat, records, dead,
        bucket.lateness.isEmpty() ? "" : bucket.lateness.rows(),
        bucket.mutes.isEmpty() ? "" : bucket.mutes.json()).bytes();
  }

  /** Returns the rule in force, as JSON, if the state does not hold it yet. */
  String newRule() {
    String rule = bucket.rule.text;
    if (rule.equals(storedRule)) return null;
    storedRule = rule;
    return rule;
  }

  /** Returns whether everything applied so far is in the state, which `meta` describes. */
  boolean standsAt(byte[] meta) {
    return sound && meta != null && java.util.Arrays.equals(meta, meta());
  }

  // ---- rows ----

  /** Applies the rows while its result is read; calls `atEnd` when all is in the state. */
  Iterator<SinkRecord> apply(Iterator<SourceRow> rows, Consumer<Run> atEnd) {
    sound = false;
    return new Iterator<>() {
      private boolean ended;

      @Override
      public boolean hasNext() {
        while (out.isEmpty() && step()) {}
        return !out.isEmpty();
      }

      private boolean step() {
        if (ended) return false;
        if (entry != null || bucket.changes()) {
          goOn();
        } else if (rows.hasNext()) {
          take(rows.next());
        } else {
          ended = true;
          assets.flush(bucket.offset, bucket.clock);
          suppressed.flush();
          sound = true;
          atEnd.accept(Run.this);
        }
        return true;
      }

      @Override
      public SinkRecord next() {
        return out.remove();
      }
    };
  }

  private void take(SourceRow row) {
    if (row.offset() <= bucket.offset) return;
    if (suppressed.endsBefore(row.offset(), bucket.offset)) out.addAll(suppressed.release(states));
    current = row;
    entry = Source.read(row, bucket.partition, partitions, plan.functions());
    if (trust != null) entry = trust.judge(entry, row);
    bucket.moveTo(row.offset(), appliedTime(row));
    goOn();
  }

  /** Returns when the row counts as appended: see domain/bounds.py. */
  private long appliedTime(SourceRow row) {
    for (List<Object> bound : bounds) {
      long time = (Long) bound.get(0);
      if (row.time() > time && row.offset() < (Long) bound.get(1)) {
        return bucket.clock > 0 ? bucket.clock : time;
      }
    }
    return row.time();
  }

  /** One thing that comes before the row's record; then that; then one asset that it changes. */
  private void goOn() {
    if (bucket.goOn()) assets.relieve();
    else dispatch();
  }

  private void dispatch() {
    bucket.apply(entry);
    if (entry instanceof Source.Misrouted misrouted) forward(misrouted.asset());
    if (entry instanceof Source.Tick) tick();
    else records++;
    entry = null;
    assets.relieve();
  }

  // ---- what leaves ----

  @Override
  public void state(String name, Asset asset, Cause cause, Asset.Answer answer) {
    SinkRecord record = Sink.state(states, plan.epoch(), name, asset, bucket.rule, cause, answer);
    if (suppressed.covers(bucket.offset)) suppressed.put(name, record);
    else out.add(record);
  }

  @Override
  public void dead(String reason) {
    dead++;
    if (suppressed.covers(bucket.offset)) return;
    String to = plan.prefix() + "dead-letters";
    out.add(Sink.deadLetter(to, reason, reports, bucket.partition, current));
  }

  /** Sends the row at hand on to the partition of its asset. */
  private void forward(String asset) {
    if (suppressed.covers(bucket.offset)) return;
    out.add(Forward.record(asset, reports, bucket.partition, partitions, current));
  }

  /** Tells of the bucket each second of ticks, also where its clock stands still, being ahead. */
  private void tick() {
    if (Math.abs(current.time() - beat) < HEARTBEAT_MS) return;
    byte[] key = Sink.bytes(scenario + "/" + bucket.partition);
    out.add(new SinkRecord(key, Sink.bytes(heartbeat()), null, plan.prefix() + "job.buckets"));
    beat = current.time();
    records = dead = 0;
    bucket.lateness.clear();
  }

  private String heartbeat() {
    StringBuilder json = new StringBuilder(256);
    Json.write(json.append("{\"bucket\":"), scenario + "/" + bucket.partition);
    Json.write(json.append(",\"scenario\":"), scenario);
    json.append(",\"partition\":").append(bucket.partition);
    json.append(",\"epoch\":").append(plan.epoch());
    Json.write(json.append(",\"executor\":"), executor);
    Json.write(json.append(",\"host\":"), HOST);
    json.append(",\"log_time\":").append(bucket.clock);
    json.append(",\"offset\":").append(bucket.offset);
    json.append(",\"assets\":").append(bucket.live);
    json.append(",\"timers\":").append(assets.waiting());
    json.append(",\"due\":").append(assets.earliest());
    json.append(",\"records\":").append(records);
    json.append(",\"dead_letters\":").append(dead);
    bucket.lateness.tell(json);
    json.append(",\"engine\":\"kernel\",\"at\":").append(System.currentTimeMillis());
    if (!plan.job().isEmpty()) Json.write(json.append(",\"job\":"), plan.job());
    String log = plan.logOf(reports);
    if (!log.isEmpty()) Json.write(json.append(",\"log\":"), log);
    if (!bucket.mutes.isEmpty()) json.append(",\"mutes\":").append(bucket.mutes.json());
    return json.append('}').toString();
  }

  private static final String HOST = host();

  private static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException error) {
      return "unknown";
    }
  }
}
