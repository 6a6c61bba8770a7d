package tallyboard.kernel;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.spark.Partitioner;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.Option;
import scala.Product2;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Hands the rows of Real-time Mode from the tasks that read to those with the state, in memory.
 *
 * <p>Spark's own class for it sends them through sockets, in buffers that fill for some
 * milliseconds, and connects each pair of tasks anew in each batch. Where all tasks run in one
 * process a row can go at once.
 *
 * <p>It extends Spark's own class because Spark makes its scheduler's tracker of writers for no
 * other.
 *
 * <p>A task cannot be repeated, as its rows are gone: Real-time Mode repeats the batch.
 */
public final class LocalShuffle extends StreamingShuffleManager {
  private final Map<Integer, RowChannel[]> shuffles = new ConcurrentHashMap<>();

  @Override
  public <K, V, C> ShuffleHandle registerShuffle(
      int shuffleId, ShuffleDependency<K, V, C> dependency) {
    int writers = dependency.rdd().getNumPartitions();
    int readers = dependency.partitioner().numPartitions();
    shuffles.put(shuffleId,
        Stream.generate(() -> new RowChannel(writers)).limit(readers).toArray(RowChannel[]::new));
    return new BaseShuffleHandle<>(shuffleId, dependency);
  }

  @Override
  public <K, V> ShuffleWriter<K, V> getWriter(ShuffleHandle handle, long mapId, TaskContext task,
      ShuffleWriteMetricsReporter metrics) {
    Partitioner partitioner = ((BaseShuffleHandle<?, ?, ?>) handle).dependency().partitioner();
    return new Writer<>(channels(handle, task), partitioner, mapId, task);
  }

  @Override
  public <K, C> ShuffleReader<K, C> getReader(ShuffleHandle handle, int startMap, int endMap,
      int start, int end, TaskContext task, ShuffleReadMetricsReporter metrics) {
    if (end != start + 1) throw new IllegalStateException("a task reads one partition");
    return new Reader<>(channels(handle, task)[start], task);
  }

  private RowChannel[] channels(ShuffleHandle handle, TaskContext task) {
    if (task.attemptNumber() + task.stageAttemptNumber() > 0) {
      throw new IllegalStateException("rows that were handed over cannot be had again");
    }
    return shuffles.get(handle.shuffleId());
  }

  @Override
  public boolean unregisterShuffle(int shuffleId) {
    return shuffles.remove(shuffleId) != null;
  }

  @Override
  public void stop() {
    shuffles.clear();
  }

  private static final class Writer<K, V> extends ShuffleWriter<K, V> {
    private final RowChannel[] channels;
    private final Partitioner partitioner;
    private final long mapId;
    private final TaskContext task;

    Writer(RowChannel[] channels, Partitioner partitioner, long mapId, TaskContext task) {
      this.channels = channels;
      this.partitioner = partitioner;
      this.mapId = mapId;
      this.task = task;
    }

    @Override
    public void write(Iterator<Product2<K, V>> records) {
      try {
        while (records.hasNext()) {
          Product2<K, V> record = records.next();
          // The iterator reuses its row.
          UnsafeRow row = ((UnsafeRow) record._2()).copy();
          RowChannel channel = channels[partitioner.getPartition(record._1())];
          while (!channel.offer(row)) task.killTaskIfInterrupted();
        }
      } catch (InterruptedException interrupt) {
        throw killed(task, interrupt);
      }
      for (RowChannel channel : channels) channel.end();
    }

    /** Returns where Spark is to believe that the rows lie: nobody looks for them there. */
    @Override
    public Option<MapStatus> stop(boolean success) {
      return Option.apply(MapStatus.apply(SparkEnv.get().blockManager().shuffleServerId(),
          getPartitionLengths(), mapId, MapStatus.apply$default$4()));
    }

    @Override
    public long[] getPartitionLengths() {
      return new long[channels.length];
    }
  }

  private static final class Reader<K, C> extends AbstractIterator<Product2<K, C>>
      implements ShuffleReader<K, C> {
    private final RowChannel channel;
    private final TaskContext task;
    private ArrayDeque<UnsafeRow> rows = new ArrayDeque<>();

    Reader(RowChannel channel, TaskContext task) {
      this.channel = channel;
      this.task = task;
    }

    @Override
    public Iterator<Product2<K, C>> read() {
      return this;
    }

    @Override
    public boolean hasNext() {
      try {
        while (rows != null && rows.isEmpty()) {
          task.killTaskIfInterrupted();
          rows = channel.take(rows);
        }
      } catch (InterruptedException interrupt) {
        throw killed(task, interrupt);
      }
      return rows != null;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Product2<K, C> next() {
      return new Tuple2<>(null, (C) rows.remove());
    }
  }

  /** Returns what ends a task that was interrupted. */
  private static RuntimeException killed(TaskContext task, InterruptedException interrupt) {
    Thread.currentThread().interrupt();
    task.killTaskIfInterrupted();
    return new IllegalStateException("interrupted, and not by Spark", interrupt);
  }
}
