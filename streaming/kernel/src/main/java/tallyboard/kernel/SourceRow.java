package tallyboard.kernel;

import java.util.List;
import org.apache.spark.sql.Row;

/** A record of a source topic: `time` is its append time, ms. */
record SourceRow(byte[] key, byte[] value, long offset, long time, List<Header> headers) {
  /** Out of the columns bucket, key, value, offset, time, headers. */
  static SourceRow of(Row row) {
    List<Row> headers = row.isNullAt(5) ? List.of() : row.getList(5);
    return new SourceRow(row.getAs(1), row.getAs(2), row.getLong(3), row.getLong(4),
        headers.stream().map(Header::of).toList());
  }
}
