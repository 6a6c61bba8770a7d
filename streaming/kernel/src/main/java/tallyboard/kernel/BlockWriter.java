package tallyboard.kernel;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.kafka010.producer.CachedKafkaProducer;
import org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$;

/** Sends the records of blocks, through the producer that Spark's own sink shares among tasks. */
final class BlockWriter implements DataWriter<InternalRow>, Callback {
  private record Written() implements WriterCommitMessage {}

  private CachedKafkaProducer producer;
  private volatile Exception failure;

  BlockWriter(Map<String, Object> options) {
    producer = InternalKafkaProducerPool$.MODULE$.acquire(options);
  }

  @Override
  public void write(InternalRow row) {
    SinkBlock.Reader block = new SinkBlock.Reader(row.getBinary(0));
    while (block.hasNext()) {
      check();
      producer.producer().send(message(block.next()), this);
    }
  }

  private static ProducerRecord<byte[], byte[]> message(SinkRecord record) {
    List<org.apache.kafka.common.header.Header> headers = record.headers() == null ? null
        : Arrays.stream(record.headers()).map(BlockWriter::header).toList();
    return new ProducerRecord<>(
        record.topic(), record.partition(), record.key(), record.value(), headers);
  }

  private static org.apache.kafka.common.header.Header header(Header header) {
    return new RecordHeader(header.name(), header.value());
  }

  @Override
  public void onCompletion(RecordMetadata metadata, Exception error) {
    if (error != null && failure == null) failure = error;
  }

  /** Raises what has kept a record from being written. */
  private void check() {
    if (failure instanceof RuntimeException error) throw error;
    if (failure != null) throw new IllegalStateException(failure.toString(), failure);
  }

  @Override
  public WriterCommitMessage commit() {
    producer.producer().flush();
    check();
    return new Written();
  }

  @Override
  public void abort() {}

  @Override
  public void close() {
    if (producer == null) return;
    try {
      producer.producer().flush();
    } finally {
      InternalKafkaProducerPool$.MODULE$.release(producer);
      producer = null;
    }
    check();
  }
}
