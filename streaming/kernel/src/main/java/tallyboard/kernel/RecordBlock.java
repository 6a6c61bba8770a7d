package tallyboard.kernel;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Records of a source partition behind one another, in order of offset. */
final class RecordBlock {
  // The columns of Spark's Kafka source.
  private static final int KEY = 0, VALUE = 1, OFFSET = 4, TIMESTAMP = 5, HEADERS = 7;

  private RecordBlock() {}

  /** Collects records. */
  static final class Writer {
    private final Frames.Writer out;
    private long first;

    Writer(int capacity) {
      out = new Frames.Writer(capacity);
    }

    /** Adds a row of Spark's Kafka source. */
    void add(InternalRow row) {
      long offset = row.getLong(OFFSET);
      if (out.size() == 0) first = offset;
      out.number(offset);
      out.number(Math.floorDiv(row.getLong(TIMESTAMP), 1000L));
      out.bytes(row.isNullAt(KEY) ? null : row.getBinary(KEY));
      out.bytes(row.isNullAt(VALUE) ? null : row.getBinary(VALUE));
      out.headers(row.isNullAt(HEADERS) ? null : headers(row.getArray(HEADERS)));
    }

    private static Header[] headers(ArrayData array) {
      if (array.numElements() == 0) return null;
      Header[] headers = new Header[array.numElements()];
      for (int i = 0; i < headers.length; i++) {
        InternalRow pair = array.getStruct(i, 2);
        headers[i] = new Header(pair.getString(0), pair.isNullAt(1) ? null : pair.getBinary(1));
      }
      return headers;
    }

    int size() {
      return out.size();
    }

    /** Returns the offset of the first record. */
    long first() {
      return first;
    }

    /** Returns the records, and holds none any more. */
    byte[] take() {
      return out.take();
    }
  }

  /** The records of a block. */
  static final class Reader implements Iterator<SourceRow> {
    private final Frames.Reader in;

    Reader(byte[] block) {
      in = new Frames.Reader(block);
    }

    @Override
    public boolean hasNext() {
      return in.hasMore();
    }

    @Override
    public SourceRow next() {
      long offset = in.number();
      long time = in.number();
      byte[] key = in.bytes();
      byte[] value = in.bytes();
      Header[] headers = in.headers();
      return new SourceRow(key, value, offset, time, headers == null ? List.of() : List.of(headers));
    }
  }
}
