package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;

/** The stream of Spark's Kafka source, its partitions shared out to few readers. */
final class BlockStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final KafkaMicroBatchStream records;
  private final int readers;

  BlockStream(KafkaMicroBatchStream records, int readers) {
    this.records = records;
    this.readers = readers;
  }

  /** Gives the longest ranges out first, each to the reader that has least to read. */
  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    KafkaBatchInputPartition[] ranges = Arrays.stream(records.planInputPartitions(start, end))
        .map(KafkaBatchInputPartition.class::cast).toArray(KafkaBatchInputPartition[]::new);
    Arrays.sort(ranges, Comparator.comparingLong(range -> -range.offsetRange().size()));
    List<BlockReader.Share> shares = new ArrayList<>();
    for (KafkaBatchInputPartition range : ranges) {
      if (shares.size() < readers) shares.add(new BlockReader.Share());
      shares.stream().min(Comparator.comparingLong(BlockReader.Share::size)).get().add(range);
    }
    return shares.toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new BlockReader.Factory();
  }

  @Override
  public Offset initialOffset() {
    return records.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return records.latestOffset();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return records.latestOffset(start, limit);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return records.getDefaultReadLimit();
  }

  @Override
  public Offset reportLatestOffset() {
    return records.reportLatestOffset();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    records.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return records.deserializeOffset(json);
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latest) {
    return records.metrics(latest);
  }

  @Override
  public void commit(Offset end) {
    records.commit(end);
  }

  @Override
  public void stop() {
    records.stop();
  }

  @Override
  public String toString() {
    return records.toString();
  }
}
