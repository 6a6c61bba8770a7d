package tallyboard.kernel;

import java.util.Iterator;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Records of a source partition behind one another, in order of offset. */
final class RecordBlock {
  private RecordBlock() {}

  /** Collects records. */
  static final class Writer {
    private final Frames.Writer out;
    private long first;

    Writer(int capacity) {
      out = new Frames.Writer(capacity);
    }

    void add(ConsumerRecord<byte[], byte[]> record) {
      if (out.size() == 0) first = record.offset();
      out.number(record.offset());
      out.number(record.timestamp());
      out.bytes(record.key());
      out.bytes(record.value());
      out.headers(headers(record.headers().toArray()));
    }

    /** Returns null for none. */
    private static Header[] headers(org.apache.kafka.common.header.Header[] given) {
      if (given.length == 0) return null;
      Header[] headers = new Header[given.length];
      for (int i = 0; i < headers.length; i++) {
        headers[i] = new Header(given[i].key(), given[i].value());
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
