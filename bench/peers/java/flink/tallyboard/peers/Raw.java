package tallyboard.peers;

import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Takes a record as it lies in the log; it is parsed behind the exchange. No key is an empty one. */
final class Raw implements
    KafkaRecordDeserializationSchema<Tuple5<String, byte[], Integer, Long, Long>> {
  private static final long serialVersionUID = 1;

  @Override
  public void deserialize(ConsumerRecord<byte[], byte[]> record,
      Collector<Tuple5<String, byte[], Integer, Long, Long>> out) {
    String key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
    out.collect(Tuple5.of(key, record.value(), record.partition(), record.offset(),
        record.timestamp()));
  }

  @Override
  public TypeInformation<Tuple5<String, byte[], Integer, Long, Long>> getProducedType() {
    return FlinkPeer.INPUT;
  }
}
