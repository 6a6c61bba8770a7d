package tallyboard.kernel;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Strict JSON (RFC 8259) out of UTF-8, as wire/source.py's reader sees it: of a repeated key the
 * last value counts, no NaN, no lone surrogate, an integer is a Long or a BigInteger, anything with
 * a point or an exponent a Double. Objects are Maps, arrays Lists.
 */
final class Json {
  /** Not JSON. */
  static final class Bad extends Exception {
    Bad() {
      super("not JSON", null, false, false);
    }
  }

  /** Longest integer that the Python engine reads, with its sign. */
  private static final int MAX_DIGITS = 4300;

  private final byte[] data;
  private int at;
  private int depth;
  private final Map<String, int[]> spans = new HashMap<>(4);
  private final Texts texts = Texts.own();

  private Json(byte[] data) {
    this.data = data;
  }

  /** A whole document. */
  record Document(Object value, byte[] data, Map<String, int[]> spans) {
    /** Returns the text of the value under this key of the outermost object, as it came. */
    String text(String key) {
      int[] span = spans.get(key);
      return new String(data, span[0], span[1] - span[0], StandardCharsets.UTF_8);
    }
  }

  /** Reads `data`, which is UTF-8; remembers where the objects of the outermost object lie. */
  static Document read(byte[] data) throws Bad {
    Json json = new Json(data);
    json.space();
    Object value = json.value();
    json.space();
    if (json.at != data.length) throw new Bad();
    return new Document(value, data, json.spans);
  }

  /** Returns the text of UTF-8 bytes, or null where they are none. */
  static String utf8(byte[] data) {
    try {
      CharBuffer text = StandardCharsets.UTF_8.newDecoder()
          .onMalformedInput(CodingErrorAction.REPORT)
          .onUnmappableCharacter(CodingErrorAction.REPORT)
          .decode(ByteBuffer.wrap(data));
      return text.toString();
    } catch (CharacterCodingException error) {
      return null;
    }
  }

  /** Returns whether the bytes are UTF-8. */
  static boolean isUtf8(byte[] data) {
    for (byte each : data) {
      if (each < 0) return utf8(data) != null;
    }
    return true;
  }

  /** Returns whether bytes, which are UTF-8, are JSON. */
  static boolean isJson(byte[] data) {
    try {
      read(data);
      return true;
    } catch (Bad error) {
      return false;
    }
  }

  private int peek() throws Bad {
    if (at >= data.length) throw new Bad();
    return data[at];
  }

  private void space() {
    while (at < data.length) {
      byte each = data[at];
      if (each != ' ' && each != '\n' && each != '\r' && each != '\t') return;
      at++;
    }
  }

  private Object value() throws Bad {
    switch (peek()) {
      case '{': return object();
      case '[': return array();
      case '"': return string();
      case 't': return word("true", Boolean.TRUE);
      case 'f': return word("false", Boolean.FALSE);
      case 'n': return word("null", null);
      default: return number();
    }
  }

  private Object word(String word, Object value) throws Bad {
    for (int i = 0; i < word.length(); i++, at++) {
      if (peek() != word.charAt(i)) throw new Bad();
    }
    return value;
  }

  private Map<String, Object> object() throws Bad {
    Map<String, Object> members = new HashMap<>();
    depth++;
    at++;
    space();
    if (peek() == '}') {
      at++;
    } else {
      do {
        space();
        if (peek() != '"') throw new Bad();
        member(members, string());
      } while (more('}'));
    }
    depth--;
    return members;
  }

  private void member(Map<String, Object> members, String key) throws Bad {
    space();
    if (peek() != ':') throw new Bad();
    at++;
    space();
    int from = at;
    Object value = value();
    members.put(key, value);
    if (depth == 1 && value instanceof Map) spans.put(key, new int[] {from, at});
  }

  private List<Object> array() throws Bad {
    List<Object> values = new ArrayList<>();
    depth++;
    at++;
    space();
    if (peek() == ']') {
      at++;
    } else {
      do {
        space();
        values.add(value());
      } while (more(']'));
    }
    depth--;
    return values;
  }

  /** After an element: true past a comma, false past the end. */
  private boolean more(char end) throws Bad {
    space();
    int next = peek();
    at++;
    if (next != ',' && next != end) throw new Bad();
    return next == ',';
  }

  private String string() throws Bad {
    int from = ++at;
    while (true) {
      int next = peek();
      if (next == '"') return texts.of(data, from, at++ - from);
      if (next == '\\') return escaped(from);
      if (next >= 0 && next < ' ') throw new Bad();
      at++;
    }
  }

  private String escaped(int from) throws Bad {
    StringBuilder text = new StringBuilder();
    int begun = from;
    while (true) {
      int next = peek();
      if (next >= 0 && next < ' ') throw new Bad();
      if (next == '"' || next == '\\') text.append(part(begun));
      at++;
      if (next == '"') return text.toString();
      if (next == '\\') {
        escape(text);
        begun = at;
      }
    }
  }

  private String part(int from) {
    return new String(data, from, at - from, StandardCharsets.UTF_8);
  }

  private void escape(StringBuilder text) throws Bad {
    int next = peek();
    at++;
    if (next == 'u') {
      unit(text);
      return;
    }
    int place = "\"\\/bfnrt".indexOf(next);
    if (place < 0) throw new Bad();
    text.append("\"\\/\b\f\n\r\t".charAt(place));
  }

  private void unit(StringBuilder text) throws Bad {
    char unit = hex();
    if (Character.isLowSurrogate(unit)) throw new Bad();
    text.append(unit);
    if (!Character.isHighSurrogate(unit)) return;
    if (peek() != '\\' || at + 1 >= data.length || data[at + 1] != 'u') throw new Bad();
    at += 2;
    char two = hex();
    if (!Character.isLowSurrogate(two)) throw new Bad();
    text.append(two);
  }

  private char hex() throws Bad {
    int unit = 0;
    for (int i = 0; i < 4; i++, at++) {
      int digit = Character.digit(peek(), 16);
      if (digit < 0) throw new Bad();
      unit = unit << 4 | digit;
    }
    return (char) unit;
  }

  private Object number() throws Bad {
    int from = at;
    if (peek() == '-') at++;
    if (peek() == '0') at++;
    else if (digits() == 0) throw new Bad();
    int whole = at;
    if (at < data.length && data[at] == '.') {
      at++;
      if (digits() == 0) throw new Bad();
    }
    if (at < data.length && (data[at] == 'e' || data[at] == 'E')) {
      at++;
      if (peek() == '+' || peek() == '-') at++;
      if (digits() == 0) throw new Bad();
    }
    String text = new String(data, from, at - from, StandardCharsets.ISO_8859_1);
    return at == whole ? integer(text) : real(text);
  }

  private int digits() {
    int from = at;
    while (at < data.length && data[at] >= '0' && data[at] <= '9') at++;
    return at - from;
  }

  private static Object integer(String text) throws Bad {
    if (text.length() <= 18) return Long.parseLong(text);
    if (text.length() > MAX_DIGITS) throw new Bad();
    BigInteger number = new BigInteger(text);
    if (number.bitLength() < Long.SIZE) return number.longValue();
    return number;
  }

  private static Double real(String text) throws Bad {
    double number = Double.parseDouble(text);
    if (Double.isInfinite(number)) throw new Bad();
    return number;
  }

  /** Appends `text` as a JSON string, escaped as msgspec escapes it; null as `null`. */
  static void write(StringBuilder out, String text) {
    if (text == null) {
      out.append("null");
      return;
    }
    out.append('"');
    int begun = 0;
    for (int i = 0; i < text.length(); i++) {
      char letter = text.charAt(i);
      if (letter >= ' ' && letter != '"' && letter != '\\') continue;
      out.append(text, begun, i).append('\\');
      begun = i + 1;
      int place = "\"\\\b\f\n\r\t".indexOf(letter);
      if (place >= 0) out.append("\"\\bfnrt".charAt(place));
      else out.append(String.format("u%04x", (int) letter));
    }
    out.append(text, begun, text.length()).append('"');
  }
}
