package tallyboard.kernel;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Whose signatures count for the records of a topic: wire/signature.py, check by check in the same
 * order.
 */
final class Trust {
  private static final long MAX_SKEW = 300_000;
  private static final byte[] TAG = bytes("tallyboard command 1");
  private static final byte[] MEMBER = bytes(",\"signature\":\"");
  private static final Pattern TEXT =
      Pattern.compile("([a-z0-9-]{1,40})\\.([0-9]{1,15})\\.([A-Za-z0-9_-]{43})\"\\}");

  private final byte[] topic;
  private final Path keys;

  /** keys: the file of the keys. */
  Trust(String topic, String keys) {
    this.topic = bytes(topic);
    this.keys = Path.of(keys);
  }

  /**
   * The entry that was read from a row; Unsigned where it commands something and bears no
   * signature, Unreadable where it bears a wrong one.
   */
  Source.Entry judge(Source.Entry entry, SourceRow row) {
    if (!(entry instanceof Source.Signed signed)) return entry;
    byte[] value = row.value();
    int at = lastMember(value);
    if (at < 0) return new Source.Unsigned(signed);
    String fault = fault(row.key(), value, at, row.time());
    return fault == null ? entry : new Source.Unreadable(fault);
  }

  private String fault(byte[] key, byte[] value, int at, long time) {
    int begin = at + MEMBER.length;
    String rest = new String(value, begin, value.length - begin, StandardCharsets.ISO_8859_1);
    Matcher fields = TEXT.matcher(rest);
    if (!fields.matches()) return "bad-signature";
    Keys.Key signer = ring().get(fields.group(1));
    if (signer == null || time < signer.since()) return "unknown-key";
    byte[] mac = mac(signer.secret(), key, bytes(fields.group(2)), Arrays.copyOf(value, at));
    if (!MessageDigest.isEqual(mac, bytes(fields.group(3)))) return "bad-signature";
    if (signer.until() != Keys.NEVER && time >= signer.until()) return "expired-key";
    long signedAt = Long.parseLong(fields.group(2));
    return Math.abs(time - signedAt) > MAX_SKEW ? "untimely-signature" : null;
  }

  private java.util.Map<String, Keys.Key> ring() {
    try {
      return Keys.of(keys);
    } catch (IOException error) {
      throw new IllegalStateException("KeysProblem: " + keys + ": " + error, error);
    }
  }

  private byte[] mac(String secret, byte[] key, byte[] signedAt, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(bytes(secret), "HmacSHA256"));
      for (byte[] part : new byte[][] {TAG, topic, key == null ? new byte[0] : key, signedAt, body}) {
        mac.update(ByteBuffer.allocate(4).putInt(part.length).array());
        mac.update(part);
      }
      return Base64.getUrlEncoder().withoutPadding().encode(mac.doFinal());
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns where the last member begins that is a signature, or -1. */
  private static int lastMember(byte[] value) {
    for (int at = value.length - MEMBER.length; at >= 0; at--) {
      if (Arrays.equals(value, at, at + MEMBER.length, MEMBER, 0, MEMBER.length)) return at;
    }
    return -1;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
