package tallyboard.kernel;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source with many records of a partition in one row: what a row costs Spark, some
 * thousands of records pay together. For micro-batches; options and checkpoints are those of the
 * source itself, so that a query goes on with either. `readers`: the number of tasks that read.
 */
public final class BlockSource implements TableProvider {
  static final StructType SCHEMA = new StructType().add("topic", DataTypes.StringType)
      .add("partition", DataTypes.IntegerType).add("offset", DataTypes.LongType)
      .add("records", DataTypes.BinaryType);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return new Blocks();
  }

  private static final class Blocks implements Table, SupportsRead {
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
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Scan records = new KafkaSourceProvider().getTable(options).newScanBuilder(options).build();
      return () -> new BlockScan(records, options.getInt("readers", 1));
    }
  }

  private record BlockScan(Scan records, int readers) implements Scan {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new BlockStream((KafkaMicroBatchStream) records.toMicroBatchStream(checkpoint), readers);
    }
  }
}
