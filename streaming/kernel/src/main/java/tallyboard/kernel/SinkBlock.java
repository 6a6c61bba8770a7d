package tallyboard.kernel;

import java.util.Arrays;
import java.util.Iterator;

/** Records for sink topics behind one another. */
final class SinkBlock {
  private static final int FULL = 1 << 18;

  private SinkBlock() {}

  /** Makes blocks of the records that come. */
  static final class Writer implements Iterator<byte[]> {
    private final Iterator<SinkRecord> records;
    private final Frames.Writer out = new Frames.Writer(FULL + (FULL >> 2));

    Writer(Iterator<SinkRecord> records) {
      this.records = records;
    }

    @Override
    public boolean hasNext() {
      return records.hasNext();
    }

    @Override
    public byte[] next() {
      while (out.size() < FULL && records.hasNext()) add(records.next());
      return out.take();
    }

    private void add(SinkRecord record) {
      out.text(record.topic());
      out.bytes(record.key());
      out.bytes(record.value());
      out.headers(record.headers());
      out.number(record.partition() == null ? -1 : record.partition());
    }
  }

  /** The records of a block. */
  static final class Reader implements Iterator<SinkRecord> {
    private final Frames.Reader in;
    private byte[] name = {};
    private String topic = "";

    Reader(byte[] block) {
      in = new Frames.Reader(block);
    }

    @Override
    public boolean hasNext() {
      return in.hasMore();
    }

    @Override
    public SinkRecord next() {
      String topic = topic(in.bytes());
      byte[] key = in.bytes();
      byte[] value = in.bytes();
      Header[] headers = in.headers();
      int partition = in.integer();
      return new SinkRecord(key, value, headers, topic, partition < 0 ? null : partition);
    }

    /** Returns the text of a topic's name, which is mostly that of the record before. */
    private String topic(byte[] bytes) {
      if (Arrays.equals(bytes, name)) return topic;
      name = bytes;
      topic = new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
      return topic;
    }
  }
}
