package tallyboard.peers;

import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A state record for the sink topic. */
final class ToKafka implements KafkaRecordSerializationSchema<Tuple4<String, byte[], String, String>> {
  private static final long serialVersionUID = 1;
  private final String topic;

  ToKafka(String topic) {
    this.topic = topic;
  }

  @Override
  public ProducerRecord<byte[], byte[]> serialize(Tuple4<String, byte[], String, String> state,
      KafkaSinkContext context, Long timestamp) {
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>(topic, FlinkPeer.bytes(state.f0), state.f1);
    record.headers().add("version", FlinkPeer.bytes(state.f2));
    if (!state.f3.isEmpty()) {
      record.headers().add("command", FlinkPeer.bytes(state.f3));
      record.headers().add("outcome", FlinkPeer.bytes("applied"));
    }
    return record;
  }
}
