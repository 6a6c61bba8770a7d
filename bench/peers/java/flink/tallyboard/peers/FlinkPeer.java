package tallyboard.peers;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The fold in Flink's DataStream API: keyed state in RocksDB, in a mini cluster of one process. */
public final class FlinkPeer {
  /** Key, value, partition, offset, append time. */
  static final TypeInformation<Tuple5<String, byte[], Integer, Long, Long>> INPUT =
      Types.TUPLE(Types.STRING, Types.PRIMITIVE_ARRAY(Types.BYTE), Types.INT, Types.LONG,
          Types.LONG);
  /** Key, value, version, command that is answered (empty: none). */
  static final TypeInformation<Tuple4<String, byte[], String, String>> OUTPUT =
      Types.TUPLE(Types.STRING, Types.PRIMITIVE_ARRAY(Types.BYTE), Types.STRING, Types.STRING);

  private FlinkPeer() {}

  public static void main(String[] arguments) throws Exception {
    Options options = new Options(arguments);
    StreamExecutionEnvironment cluster = StreamExecutionEnvironment.createLocalEnvironment(
        (int) options.number("threads"), settings(options));
    cluster.fromSource(source(options), watermarks(), "reports")
        .filter(record -> !record.f0.isEmpty()) // ticks, and rules
        .keyBy(record -> record.f0, Types.STRING)
        .process(new FoldFunction(options.number("lifetime-ms"))).returns(OUTPUT)
        .sinkTo(sink(options));
    JobClient job = cluster.executeAsync("peer");
    Thread teller = new Thread(() -> tellRunning(job));
    teller.start();
    job.getJobExecutionResult().get();
  }

  private static void tellRunning(JobClient job) {
    try {
      while (job.getJobStatus().get() != JobStatus.RUNNING) Thread.sleep(20);
      Options.tellRunning();
    } catch (Exception ended) {
      ended.printStackTrace();
    }
  }

  private static Configuration settings(Options options) {
    Configuration settings = new Configuration();
    settings.setString("state.backend.type", "rocksdb");
    settings.setString("execution.checkpointing.incremental", "true");
    settings.setString("execution.checkpointing.interval", options.text("checkpoint"));
    settings.setString("execution.checkpointing.dir", "file://" + options.text("state") + "/saved");
    settings.setString("state.backend.rocksdb.localdir", options.text("state") + "/rocksdb");
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("taskmanager.memory.managed.size", "1g");
    settings.setString("taskmanager.memory.network.max", "128m");
    return settings;
  }

  private static KafkaSource<Tuple5<String, byte[], Integer, Long, Long>> source(Options options) {
    return KafkaSource.<Tuple5<String, byte[], Integer, Long, Long>>builder()
        .setBootstrapServers(options.text("bootstrap"))
        .setTopics(options.text("source"))
        .setGroupId(options.text("application"))
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setDeserializer(new Raw())
        .build();
  }

  private static WatermarkStrategy<Tuple5<String, byte[], Integer, Long, Long>> watermarks() {
    return WatermarkStrategy
        .<Tuple5<String, byte[], Integer, Long, Long>>forMonotonousTimestamps()
        .withIdleness(Duration.ofSeconds(10));
  }

  private static KafkaSink<Tuple4<String, byte[], String, String>> sink(Options options) {
    Properties producer = new Properties();
    producer.setProperty("compression.type", "none");
    producer.setProperty("linger.ms", "5");
    producer.setProperty("batch.size", "262144");
    producer.setProperty("buffer.memory", "67108864");
    producer.setProperty("transaction.timeout.ms", "600000");
    return KafkaSink.<Tuple4<String, byte[], String, String>>builder()
        .setBootstrapServers(options.text("bootstrap"))
        .setKafkaProducerConfig(producer)
        .setDeliveryGuarantee(DeliveryGuarantee.valueOf(options.text("guarantee")))
        .setTransactionalIdPrefix(options.text("application"))
        .setRecordSerializer(new ToKafka(options.text("sink")))
        .build();
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
