package tallyboard.kernel;

import java.util.Arrays;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * A record for a sink topic. value: null for a tombstone; headers: null for none; partition: null
 * for that of the key.
 */
record SinkRecord(byte[] key, byte[] value, Header[] headers, String topic, Integer partition) {
  SinkRecord(byte[] key, byte[] value, Header[] headers, String topic) {
    this(key, value, headers, topic, null);
  }

  /** Returns it as the columns of Spark's Kafka sink. */
  Row row() {
    Row[] pairs = headers == null ? null
        : Arrays.stream(headers).map(Header::row).toArray(Row[]::new);
    return RowFactory.create(key, value, pairs, topic, partition);
  }
}
