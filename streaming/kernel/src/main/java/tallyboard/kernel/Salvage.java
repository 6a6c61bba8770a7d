package tallyboard.kernel;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * The members of a JSON object that cannot be read as a whole, each as the bytes that it came in:
 * wire/salvage.py. A value is skipped by strings and brackets alone, and its bytes are not decoded;
 * reading ends where the object breaks off.
 */
final class Salvage {
  /** Whether the object ends, and the value with it. */
  final boolean whole;
  private final byte[] data;
  private final Map<String, byte[]> spans = new HashMap<>();
  private int at;

  Salvage(byte[] data) {
    this.data = data;
    whole = object();
  }

  /** Returns the bytes of a member, the last of that name; null where there is none, or null. */
  byte[] span(String name) {
    byte[] span = spans.get(name);
    return span == null || Arrays.equals(span, new byte[] {'n', 'u', 'l', 'l'}) ? null : span;
  }

  /** Returns the text, the number or the null of a member; anything else as the bytes it is. */
  Object plain(String name) {
    return plain(span(name));
  }

  private static Object plain(byte[] span) {
    if (span == null) return null;
    byte first = span.length == 0 ? 0 : span[0];
    if (first != '"' && first != '-' && (first < '0' || first > '9')) return span;
    try {
      return Json.isUtf8(span) ? Json.read(span).value() : span;
    } catch (Json.Bad error) {
      return span;
    }
  }

  private boolean object() {
    space();
    if (next() != '{') return false;
    at++;
    space();
    if (next() != '}') {
      do {
        if (!member()) return false;
      } while (data[at++] == ',');
    } else {
      at++;
    }
    space();
    return at == data.length;
  }

  /** Goes to the comma or the brace behind a member; returns false where it breaks off. */
  private boolean member() {
    space();
    int from = at;
    if (next() != '"' || !string()) return false;
    Object name = plain(Arrays.copyOfRange(data, from, at));
    space();
    if (next() != ':') return false;
    at++;
    space();
    from = at;
    if (!skip()) return false;
    int end = at;
    while (end > from && isSpace(data[end - 1])) end--;
    if (name instanceof String text) spans.put(text, Arrays.copyOfRange(data, from, end));
    return true;
  }

  /** Goes past a value, to the comma or the brace behind it; returns false where it breaks off. */
  private boolean skip() {
    int depth = 0;
    for (; at < data.length; at++) {
      byte each = data[at];
      if (depth == 0 && (each == ',' || each == '}')) return true;
      if (depth == 0 && each == ']') return false;
      if (each == '[' || each == '{') depth++;
      if (each == ']' || each == '}') depth--;
      if (each == '"') {
        if (!string()) return false;
        at--;
      }
    }
    return false;
  }

  /** Goes past a string; returns false where it does not end. */
  private boolean string() {
    for (at++; at < data.length; at++) {
      if (data[at] == '\\') {
        at++;
      } else if (data[at] == '"') {
        at++;
        return true;
      }
    }
    return false;
  }

  private int next() {
    return at < data.length ? data[at] : 0;
  }

  private void space() {
    while (at < data.length && isSpace(data[at])) at++;
  }

  private static boolean isSpace(byte each) {
    return each == ' ' || each == '\n' || each == '\r' || each == '\t';
  }
}
