package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Headers of a record of a source topic that the job forwards to the partition of its asset:
 * wire/forward.py.
 */
final class Forward {
  private static final int MAX_FORWARDED = 524_288;
  private static final String PARTITION = "forwarded-partition";
  private static final String OFFSET = "forwarded-offset";
  private static final String TIME = "forwarded-timestamp";
  private static final Pattern DIGITS = Pattern.compile("[0-9]{1,15}");

  private Forward() {}

  /** Returns whether a record can be forwarded: it has not been before, and it is not too large. */
  static boolean canForward(SourceRow row) {
    long size = row.value() == null ? 0 : row.value().length;
    for (Header header : row.headers()) {
      if (header.name().equals(TIME)) return false;
      size += Sink.bytes(header.name()).length;
      size += header.value() == null ? 0 : header.value().length;
    }
    return size <= MAX_FORWARDED;
  }

  /** Returns when a forwarded record was first appended, ms; Rule.NONE if it was not forwarded. */
  static long firstAppendedAt(SourceRow row) {
    String first = "";
    for (Header header : row.headers()) {
      if (!header.name().equals(TIME)) continue;
      byte[] value = header.value();
      first = value == null ? "" : new String(value, StandardCharsets.ISO_8859_1);
    }
    return DIGITS.matcher(first).matches() ? Long.parseLong(first) : Rule.NONE;
  }

  /** The record with its asset as the key, for its partition out of so many. */
  static SinkRecord record(
      String asset, String topic, int partition, int partitions, SourceRow row) {
    byte[] key = Sink.bytes(asset);
    List<Header> headers = new ArrayList<>();
    headers.add(header(PARTITION, partition));
    headers.add(header(OFFSET, row.offset()));
    headers.add(header(TIME, row.time()));
    for (Header own : row.headers()) {
      headers.add(own.value() == null ? new Header(own.name(), new byte[0]) : own);
    }
    return new SinkRecord(key, row.value(), headers.toArray(Header[]::new), topic,
        Source.partitionOf(key, partitions));
  }

  private static Header header(String name, long number) {
    return new Header(name, Sink.bytes(Long.toString(number)));
  }
}
