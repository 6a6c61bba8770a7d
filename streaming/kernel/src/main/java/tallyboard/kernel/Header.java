package tallyboard.kernel;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** A header of a Kafka record; value: null for none. */
record Header(String name, byte[] value) {
  static Header of(Row row) {
    return new Header(row.getString(0), row.getAs(1));
  }

  Row row() {
    return RowFactory.create(name, value);
  }
}
