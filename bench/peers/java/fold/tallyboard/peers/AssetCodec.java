package tallyboard.peers;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** An asset as bytes: numbers of variable length, times as differences where they are close. */
public final class AssetCodec {
  private byte[] bytes;
  private int at;

  private AssetCodec(byte[] bytes) {
    this.bytes = bytes;
  }

  public static byte[] write(Asset asset) {
    AssetCodec out = new AssetCodec(new byte[256]);
    out.number(asset.state + 1).number(asset.previous + 1).number(asset.since);
    out.number(asset.emittedAt).number(asset.offset).number(asset.step).number(asset.timer);
    out.number(asset.votes.size());
    for (Asset.Vote vote : asset.votes) {
      out.text(vote.agent()).number(vote.state()).number(vote.time());
      out.number(vote.time() - vote.reportedAt()).number(vote.offset());
      out.number(vote.expires() - vote.time()).number(vote.silent());
      out.number(vote.turned()).number(vote.flapping() ? 1 : 0);
    }
    return Arrays.copyOf(out.bytes, out.at);
  }

  public static Asset read(byte[] bytes) {
    AssetCodec in = new AssetCodec(bytes);
    Asset asset = new Asset();
    asset.state = (int) in.number() - 1;
    asset.previous = (int) in.number() - 1;
    asset.since = in.number();
    asset.emittedAt = in.number();
    asset.offset = in.number();
    asset.step = in.number();
    asset.timer = in.number();
    for (long left = in.number(); left > 0; left--) asset.votes.add(in.vote());
    return asset;
  }

  private Asset.Vote vote() {
    String agent = text();
    int state = (int) number();
    long time = number();
    long reportedAt = time - number();
    long offset = number();
    long expires = time + number();
    long silent = number();
    long turned = number();
    return new Asset.Vote(agent, state, reportedAt, time, offset, expires, silent, turned,
        number() == 1);
  }

  /** Zigzag, seven bits a byte. */
  private AssetCodec number(long number) {
    if (at + 10 > bytes.length) bytes = Arrays.copyOf(bytes, 2 * bytes.length);
    long left = number << 1 ^ number >> 63;
    while ((left & ~0x7FL) != 0) {
      bytes[at++] = (byte) (left & 0x7F | 0x80);
      left >>>= 7;
    }
    bytes[at++] = (byte) left;
    return this;
  }

  private long number() {
    long number = 0;
    for (int shift = 0; ; shift += 7) {
      byte next = bytes[at++];
      number |= (next & 0x7FL) << shift;
      if (next >= 0) return number >>> 1 ^ -(number & 1);
    }
  }

  private AssetCodec text(String text) {
    byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
    number(encoded.length);
    if (at + encoded.length > bytes.length) {
      bytes = Arrays.copyOf(bytes, 2 * (at + encoded.length));
    }
    System.arraycopy(encoded, 0, bytes, at, encoded.length);
    at += encoded.length;
    return this;
  }

  private String text() {
    int length = (int) number();
    String text = new String(bytes, at, length, StandardCharsets.UTF_8);
    at += length;
    return text;
  }
}
