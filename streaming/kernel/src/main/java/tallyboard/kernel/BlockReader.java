package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads ranges of the log, one after the other, as rows that hold a block of records each. The
 * consumers are Spark's own, out of its pool; only the row that Spark makes of each record is left
 * out.
 */
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

  /** Makes a reader of a share. */
  record Factory() implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new BlockReader(((Share) partition).ranges.iterator());
    }
  }

  private final Iterator<KafkaBatchInputPartition> ranges;
  private final RecordBlock.Writer block = new RecordBlock.Writer(FULL + (FULL >> 2));
  private KafkaBatchInputPartition range;
  /** Reads the range at hand; or null. */
  private KafkaDataConsumer consumer;
  private long offset;
  private UTF8String topic;
  private InternalRow row;

  private BlockReader(Iterator<KafkaBatchInputPartition> ranges) {
    this.ranges = ranges;
  }

  @Override
  public boolean next() {
    while (consumer != null || ranges.hasNext()) {
      if (consumer == null) open(ranges.next());
      if (fill()) return true;
    }
    return false;
  }

  private void open(KafkaBatchInputPartition next) {
    KafkaOffsetRange offsets = next.offsetRange();
    range = next;
    offset = offsets.fromOffset();
    topic = UTF8String.fromString(offsets.topicPartition().topic());
    consumer = KafkaDataConsumer.acquire(offsets.topicPartition(), next.executorKafkaParams());
  }

  /** Fills a block from the range at hand; returns false where nothing is left of it. */
  private boolean fill() {
    while (block.size() < FULL) {
      ConsumerRecord<byte[], byte[]> record = nextRecord();
      if (record == null) {
        close();
        break;
      }
      block.add(record);
    }
    if (block.size() == 0) return false;
    int partition = range.offsetRange().topicPartition().partition();
    long first = block.first();
    row = new GenericInternalRow(new Object[] {topic, partition, first, block.take()});
    return true;
  }

  /** Returns null at the end of the range. */
  private ConsumerRecord<byte[], byte[]> nextRecord() {
    long end = range.offsetRange().untilOffset();
    if (offset >= end) return null;
    ConsumerRecord<byte[], byte[]> record =
        consumer.get(offset, end, range.pollTimeoutMs(), range.failOnDataLoss());
    if (record != null) offset = record.offset() + 1;
    return record;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public void close() {
    if (consumer != null) consumer.release();
    consumer = null;
  }
}
