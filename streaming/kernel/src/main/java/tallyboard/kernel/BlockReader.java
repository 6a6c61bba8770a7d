package tallyboard.kernel;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads ranges of the log, one after the other, as rows that hold a block of records each. */
final class BlockReader implements PartitionReader<InternalRow> {
  private static final int FULL = 1 << 18;

  /** The ranges of one reader. */
  static final class Share implements InputPartition {
    private final List<KafkaBatchInputPartition> ranges = new ArrayList<>();

    void add(KafkaBatchInputPartition range) {
      ranges.add(range);
    }

    /** Returns how many records it has, as far as offsets tell. */
    long size() {
      return ranges.stream().mapToLong(range -> range.offsetRange().size()).sum();
    }
  }

  /** Makes readers out of those for a single range. */
  record Factory(PartitionReaderFactory records) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new BlockReader(records, ((Share) partition).ranges.iterator());
    }
  }

  private final PartitionReaderFactory factory;
  private final Iterator<KafkaBatchInputPartition> ranges;
  private final RecordBlock.Writer block = new RecordBlock.Writer(FULL + (FULL >> 2));
  private PartitionReader<InternalRow> records;
  private TopicPartition place;
  private UTF8String topic;
  private InternalRow row;

  private BlockReader(PartitionReaderFactory factory, Iterator<KafkaBatchInputPartition> ranges) {
    this.factory = factory;
    this.ranges = ranges;
  }

  @Override
  public boolean next() throws IOException {
    while (records != null || ranges.hasNext()) {
      if (records == null) open(ranges.next());
      if (fill()) return true;
    }
    return false;
  }

  private void open(KafkaBatchInputPartition range) {
    place = range.offsetRange().topicPartition();
    topic = UTF8String.fromString(place.topic());
    records = factory.createReader(range);
  }

  /** Fills a block from the range at hand; returns false where nothing is left of it. */
  private boolean fill() throws IOException {
    while (block.size() < FULL) {
      if (!records.next()) {
        close();
        break;
      }
      block.add(records.get());
    }
    if (block.size() == 0) return false;
    long first = block.first();
    row = new GenericInternalRow(new Object[] {topic, place.partition(), first, block.take()});
    return true;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public void close() throws IOException {
    if (records != null) records.close();
    records = null;
  }
}
