package tallyboard.kernel;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.kafka010.KafkaSourceProvider$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Kafka sink for rows that hold a block of records each. It takes the options of Spark's own, and
 * promises what that does: a batch counts as written once the brokers have acknowledged all of it,
 * and a batch that is tried again writes its records again.
 */
public final class BlockSink implements TableProvider {
  static final StructType SCHEMA = new StructType().add("records", DataTypes.BinaryType);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new Topics();
  }

  private static final class Topics implements Table, SupportsWrite {
    @Override
    public String name() {
      return "kafka blocks";
    }

    @Override
    @SuppressWarnings("deprecation") // Spark's own default of columns() asks for it
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.STREAMING_WRITE);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new Builder(info.options());
    }
  }

  private record Builder(CaseInsensitiveStringMap options)
      implements SupportsStreamingUpdateAsAppend {
    @Override
    public String toString() {
      return "kafka blocks";
    }

    @Override
    public Write build() {
      Map<String, Object> producer = producerOptions(options);
      return new Write() {
        @Override
        public StreamingWrite toStreaming() {
          return new Stream(producer);
        }
      };
    }
  }

  private static Map<String, Object> producerOptions(CaseInsensitiveStringMap options) {
    CaseInsensitiveMap<String> given = CaseInsensitiveMap$.MODULE$.apply(
        scala.collection.immutable.Map.from(
            CollectionConverters.asScala(options.asCaseSensitiveMap())));
    return KafkaSourceProvider$.MODULE$.kafkaParamsForProducer(given);
  }

  private record Stream(Map<String, Object> producer) implements StreamingWrite {
    /** Returns a name without the options: Spark logs it, and they may hold a password. */
    @Override
    public String toString() {
      return "kafka blocks";
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      return new Writers(producer);
    }

    @Override
    public boolean useCommitCoordinator() {
      return false; // as with Spark's own sink: nothing is left to be done when all have written
    }

    @Override
    public void commit(long epoch, WriterCommitMessage[] messages) {}

    @Override
    public void abort(long epoch, WriterCommitMessage[] messages) {}
  }

  private record Writers(Map<String, Object> producer) implements StreamingDataWriterFactory {
    @Override
    public String toString() {
      return "kafka blocks";
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return new BlockWriter(producer);
    }
  }
}
