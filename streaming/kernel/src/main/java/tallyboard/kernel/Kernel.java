package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The fold as Spark's StatefulProcessor: one grouping key is one bucket.
 *
 * <p>A bucket stays in memory from batch to batch, with its timer index, as long as the state it
 * finds is where it left off; it goes by clock and offset, because the state is a pure function of
 * the log.
 */
public final class Kernel extends StatefulProcessor<String, Row, Row> {
  private static final StructType HEADER = new StructType()
      .add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  private static final StructType SINK = new StructType()
      .add("key", DataTypes.BinaryType).add("value", DataTypes.BinaryType)
      .add("headers", DataTypes.createArrayType(HEADER)).add("topic", DataTypes.StringType)
      .add("partition", DataTypes.IntegerType);
  private static final Map<String, Run> KEPT = new ConcurrentHashMap<>();


  private final String json;
  private final Form form;
  /** How Hadoop reaches what buckets begin with; null where that is on local paths. */
  private final SerializableConfiguration files;
  private transient Plan plan;
  private transient Map<String, Run> open;
  private transient ValueState<byte[]> meta;
  private transient ValueState<String> rule;
  private transient MapState<String, byte[]> assets;
  private transient MapState<String, byte[]> timers;
  private transient MapState<String, byte[]> last;

  /**
   * How records come and go: one in a row, in the order of the log or in any; in blocks; or they
   * come in blocks and go one in a row.
   */
  private enum Form { ORDERED, ANY_ORDER, BLOCKS, FROM_BLOCKS }

  private Kernel(String plan, Form form, SerializableConfiguration files) {
    json = plan;
    this.form = form;
    this.files = files;
  }

  /**
   * Puts the kernel behind rows of (bucket, key, value, offset, time, headers); returns rows of
   * (key, value, headers, topic, partition). plan: see Plan.
   */
  public static Dataset<Row> apply(Dataset<Row> rows, String plan) {
    Form form = Plan.parse(plan).realTime() ? Form.ORDERED : Form.ANY_ORDER;
    return behind(rows, new Kernel(plan, form, files(rows, plan)), SINK);
  }

  /**
   * Puts the kernel behind rows of (bucket, offset, records), as BlockSource has them; returns rows
   * of BlockSink. plan: see Plan.
   */
  public static Dataset<Row> applyToBlocks(Dataset<Row> blocks, String plan) {
    return behind(blocks, new Kernel(plan, Form.BLOCKS, files(blocks, plan)), BlockSink.SCHEMA);
  }

  /** What the driver knows of file systems, for executors, where any bucket's seed has a URL. */
  private static SerializableConfiguration files(Dataset<Row> rows, String plan) {
    if (!Plan.parse(plan).hasRemoteSeeds()) return null;
    SparkSession session = (SparkSession) rows.sparkSession();
    return new SerializableConfiguration(session.sessionState().newHadoopConf());
  }

  /** Puts the kernel behind rows as applyToBlocks has them; returns rows as apply does. */
  public static Dataset<Row> applyFromBlocks(Dataset<Row> blocks, String plan) {
    return behind(blocks, new Kernel(plan, Form.FROM_BLOCKS, files(blocks, plan)), SINK);
  }

  private static Dataset<Row> behind(Dataset<Row> rows, Kernel kernel, StructType result) {
    return rows.groupBy("bucket").as(Encoders.STRING(), Encoders.row(rows.schema()))
        .transformWithState(kernel, TimeMode.None(), OutputMode.Update(), Encoders.row(result));
  }

  @Override
  public void init(OutputMode outputMode, TimeMode timeMode) {
    plan = Plan.parse(json);
    open = new HashMap<>();
    TTLConfig forever = TTLConfig.NONE();
    meta = getHandle().getValueState("meta", Encoders.BINARY(), forever);
    rule = getHandle().getValueState("rule", Encoders.STRING(), forever);
    assets = getHandle().getMapState("assets", Encoders.STRING(), Encoders.BINARY(), forever);
    timers = getHandle().getMapState("timers", Encoders.STRING(), Encoders.BINARY(), forever);
    last = getHandle().getMapState("last", Encoders.STRING(), Encoders.BINARY(), forever);
  }

  @Override
  public scala.collection.Iterator<Row> handleInputRows(String key,
      scala.collection.Iterator<Row> rows, TimerValues timers) {
    Run run = open.computeIfAbsent(key, this::open);
    Iterator<SinkRecord> records =
        run.apply(records(CollectionConverters.asJava(rows)), this::keep);
    return CollectionConverters.asScala(form == Form.BLOCKS
        ? mapped(new SinkBlock.Writer(records), RowFactory::create)
        : mapped(records, SinkRecord::row));
  }

  /** A micro-batch brings a bucket's rows in any order; Real-time Mode keeps the partition's. */
  private Iterator<SourceRow> records(Iterator<Row> rows) {
    return switch (form) {
      case ORDERED -> mapped(rows, SourceRow::of);
      case ANY_ORDER -> sorted(mapped(rows, SourceRow::of), SourceRow::offset);
      case BLOCKS, FROM_BLOCKS -> unpacked(sorted(rows, row -> row.getLong(1)));
    };
  }

  private static <T> Iterator<T> sorted(Iterator<T> rows, ToLongFunction<T> offset) {
    List<T> sorted = new ArrayList<>();
    rows.forEachRemaining(sorted::add);
    sorted.sort(Comparator.comparingLong(offset));
    return sorted.iterator();
  }

  private static Iterator<SourceRow> unpacked(Iterator<Row> blocks) {
    return new Iterator<>() {
      private Iterator<SourceRow> records = Collections.emptyIterator();

      @Override
      public boolean hasNext() {
        while (!records.hasNext() && blocks.hasNext()) {
          records = new RecordBlock.Reader(blocks.next().getAs(2));
        }
        return records.hasNext();
      }

      @Override
      public SourceRow next() {
        return records.next();
      }
    };
  }

  private static <T, R> Iterator<R> mapped(Iterator<T> rows, Function<T, R> function) {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return rows.hasNext();
      }

      @Override
      public R next() {
        return function.apply(rows.next());
      }
    };
  }

  private Run open(String key) {
    String name = key.split("#")[0];
    byte[] stored = meta.get();
    Run kept = KEPT.remove(place(name));
    if (kept != null && kept.standsAt(stored)) {
      kept.over(assets, timers, last);
      return kept;
    }
    if (stored == null) stored = begin(name);
    String first = stored == null ? plan.ruleOf(name) : rule.get();
    Run run = new Run(plan, name, first, SparkEnv.get().executorId());
    if (stored == null) run.over(assets, timers, last);
    else run.load(stored, assets, timers, last);
    return run;
  }

  /** Returns what a bucket without state begins with: its seed, or null. */
  private byte[] begin(String name) {
    KEPT.keySet().removeIf(place -> place.endsWith("/" + name)); // of an epoch that is over
    String seed = plan.seedOf(name);
    if (seed == null) return null;
    rule.update(plan.ruleOf(name));
    return InitialState.load(seed, files == null ? null : files.value(), assets, last);
  }

  private void keep(Run run) {
    String changed = run.newRule();
    if (changed != null) rule.update(changed);
    meta.update(run.meta());
  }

  @Override
  public void close() {
    if (open != null) open.forEach((key, run) -> KEPT.put(place(key.split("#")[0]), run));
    open = null;
  }

  private String place(String name) {
    return getHandle().getQueryInfo().getQueryId() + "/" + name;
  }
}
