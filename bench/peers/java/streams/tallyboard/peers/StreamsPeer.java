package tallyboard.peers;

import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** The fold in Kafka Streams: a processor over a RocksDB store with a changelog. */
public final class StreamsPeer {
  static final String ASSETS = "assets", TIMERS = "timers";

  private StreamsPeer() {}

  public static void main(String[] arguments) {
    Options options = new Options(arguments);
    KafkaStreams streams = new KafkaStreams(topology(options), settings(options));
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.RUNNING) Options.tellRunning();
    });
    streams.setUncaughtExceptionHandler(problem -> {
      problem.printStackTrace();
      return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static Topology topology(Options options) {
    boolean cached = options.number("cache-mb") > 0;
    Fold fold = new Fold(options.number("lifetime-ms"));
    Serde<Asset> asset = Serdes.serdeFrom(
        (topic, value) -> value == null ? null : AssetCodec.write(value),
        (topic, bytes) -> bytes == null ? null : AssetCodec.read(bytes));
    return new Topology()
        .addSource("reports", new ByteArrayDeserializer(), new ByteArrayDeserializer(),
            options.text("source"))
        .addProcessor("fold", () -> new FoldProcessor(fold), "reports")
        .addStateStore(store(ASSETS, asset, cached), "fold")
        .addStateStore(store(TIMERS, Serdes.ByteArray(), cached), "fold")
        .addSink("states", options.text("sink"), new ByteArraySerializer(),
            new ByteArraySerializer(), "fold");
  }

  private static <V> StoreBuilder<KeyValueStore<byte[], V>> store(String name, Serde<V> values,
      boolean cached) {
    StoreBuilder<KeyValueStore<byte[], V>> store = Stores.keyValueStoreBuilder(
        Stores.persistentKeyValueStore(name), Serdes.ByteArray(), values);
    return cached ? store.withCachingEnabled() : store.withCachingDisabled();
  }

  private static Properties settings(Options options) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, options.text("application"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
    settings.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, options.text("guarantee"));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.text("threads"));
    settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, options.text("standbys"));
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, options.number("cache-mb") << 20);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(consumer(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    // A process that is started again takes its place at once, not when its session has ended.
    settings.put(consumer(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), options.text("instance"));
    // As the product's own sink: its batches are large, and not packed on one machine.
    settings.put(producer(ProducerConfig.COMPRESSION_TYPE_CONFIG), "none");
    settings.put(producer(ProducerConfig.LINGER_MS_CONFIG), 5);
    settings.put(producer(ProducerConfig.BATCH_SIZE_CONFIG), 262_144);
    settings.put(producer(ProducerConfig.BUFFER_MEMORY_CONFIG), 67_108_864);
    return settings;
  }

  private static String consumer(String name) {
    return StreamsConfig.mainConsumerPrefix(name);
  }

  private static String producer(String name) {
    return StreamsConfig.producerPrefix(name);
  }
}
