package tallyboard.kernel;

import java.util.Arrays;

/** JSON as UTF-8, in an array that grows. */
final class JsonBytes {
  /** Longest that a number is: 19 digits and a sign. */
  private static final int DIGITS = 20;

  private byte[] data;
  private int size;

  /** capacity: of the first array, bytes. */
  JsonBytes(int capacity) {
    data = new byte[capacity];
  }

  /** Appends a text of ASCII as it is. */
  @SuppressWarnings("deprecation") // the one copy that makes no array; all are ASCII
  JsonBytes append(String ascii) {
    room(ascii.length());
    ascii.getBytes(0, ascii.length(), data, size);
    size += ascii.length();
    return this;
  }

  JsonBytes append(char ascii) {
    room(1);
    data[size++] = (byte) ascii;
    return this;
  }

  JsonBytes append(boolean value) {
    return append(value ? "true" : "false");
  }

  JsonBytes append(long number) {
    if (number < 0) return append(Long.toString(number));
    room(DIGITS);
    int end = size + 1;
    for (long left = number / 10; left > 0; left /= 10) end++;
    for (int at = end; at > size; number /= 10) data[--at] = (byte) ('0' + number % 10);
    size = end;
    return this;
  }

  /** Appends JSON that is there already; null as `null`. */
  JsonBytes json(String json) {
    if (json == null) return append("null");
    byte[] bytes = Sink.bytes(json);
    room(bytes.length);
    System.arraycopy(bytes, 0, data, size, bytes.length);
    size += bytes.length;
    return this;
  }

  /** Appends a text as a string of JSON; null as `null`. */
  JsonBytes text(String text) {
    if (text == null) return append("null");
    if (isPlain(text)) return append('"').append(text).append('"');
    StringBuilder escaped = new StringBuilder(text.length() + 16);
    Json.write(escaped, text);
    return json(escaped.toString());
  }

  /** Returns whether a text is of ASCII that stands in a string of JSON as it is. */
  static boolean isPlain(String text) {
    for (int i = 0; i < text.length(); i++) {
      char letter = text.charAt(i);
      if (letter < ' ' || letter > '~' || letter == '"' || letter == '\\') return false;
    }
    return true;
  }

  private void room(int more) {
    if (data.length - size < more) {
      data = Arrays.copyOf(data, Math.max(2 * data.length, size + more));
    }
  }

  byte[] bytes() {
    return Arrays.copyOf(data, size);
  }
}
