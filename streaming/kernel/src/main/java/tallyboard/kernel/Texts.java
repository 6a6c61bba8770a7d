package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Texts that come again and again, as names of fields, agents and states do: each is made once, and
 * is then mostly the same object. What comes in between may take its place.
 */
final class Texts {
  private static final int BITS = 12;
  private static final int LONGEST = 40;
  private static final ThreadLocal<Texts> OWN = ThreadLocal.withInitial(Texts::new);

  private final byte[][] known = new byte[1 << BITS][];
  private final String[] texts = new String[1 << BITS];

  private Texts() {}

  /** Returns those of the thread at hand. */
  static Texts own() {
    return OWN.get();
  }

  /** Returns the text of these bytes, which are UTF-8. */
  String of(byte[] data, int from, int length) {
    if (length > LONGEST) return new String(data, from, length, StandardCharsets.UTF_8);
    int slot = slot(data, from, length);
    byte[] there = known[slot];
    if (there != null && Arrays.equals(there, 0, there.length, data, from, from + length)) {
      return texts[slot];
    }
    known[slot] = Arrays.copyOfRange(data, from, from + length);
    texts[slot] = new String(data, from, length, StandardCharsets.UTF_8);
    return texts[slot];
  }

  private static int slot(byte[] data, int from, int length) {
    int hash = length;
    for (int i = from; i < from + length; i++) hash = 31 * hash + data[i];
    return hash * 0x9E3779B9 >>> 32 - BITS; // Fibonacci hashing: Knuth, TAOCP 6.4
  }
}
