package tallyboard.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Numbers and arrays behind one another; an array after its length, which is -1 for null. */
final class Frames {
  private Frames() {}

  /** Writes them into an array that grows. */
  static final class Writer {
    private ByteBuffer data;

    /** capacity: of the first array, bytes. */
    Writer(int capacity) {
      data = ByteBuffer.allocate(capacity);
    }

    /** Returns how many bytes it holds. */
    int size() {
      return data.position();
    }

    /** Returns what it holds, and holds nothing any more. */
    byte[] take() {
      byte[] taken = Arrays.copyOf(data.array(), data.position());
      data.clear();
      return taken;
    }

    void number(int number) {
      room(4).putInt(number);
    }

    void number(long number) {
      room(8).putLong(number);
    }

    void bytes(byte[] bytes) {
      if (bytes == null) number(-1);
      else room(4 + bytes.length).putInt(bytes.length).put(bytes);
    }

    void text(String text) {
      bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    void headers(Header[] headers) {
      number(headers == null ? -1 : headers.length);
      if (headers == null) return;
      for (Header header : headers) {
        text(header.name());
        bytes(header.value());
      }
    }

    private ByteBuffer room(int more) {
      if (data.remaining() >= more) return data;
      int capacity = Math.max(2 * data.capacity(), data.position() + more);
      data = ByteBuffer.wrap(Arrays.copyOf(data.array(), capacity)).position(data.position());
      return data;
    }
  }

  /** Reads them in the order in which they were written. */
  static final class Reader {
    private final ByteBuffer data;

    Reader(byte[] data) {
      this.data = ByteBuffer.wrap(data);
    }

    boolean hasMore() {
      return data.hasRemaining();
    }

    int integer() {
      return data.getInt();
    }

    long number() {
      return data.getLong();
    }

    byte[] bytes() {
      int length = data.getInt();
      if (length < 0) return null;
      byte[] bytes = new byte[length];
      data.get(bytes);
      return bytes;
    }

    String text() {
      return new String(bytes(), StandardCharsets.UTF_8);
    }

    Header[] headers() {
      int count = data.getInt();
      if (count < 0) return null;
      Header[] headers = new Header[count];
      for (int i = 0; i < count; i++) headers[i] = new Header(text(), bytes());
      return headers;
    }
  }
}
