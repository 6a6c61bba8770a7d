package tallyboard.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;

/**
 * An asset as bytes for the state store. The first byte is the codec's version: 3 is written where a
 * vote is muted, else 2; 1 is read too. Integers are variable-length (zigzag, 7 bits a byte, the least first); texts are UTF-8
 * after their length plus one, zero for null. Version 2 holds offsets as differences from the
 * asset's own, and a command's id as 16 bytes; version 3 with each vote who muted it.
 */
final class Codec {
  private static final byte PLAIN = 2;
  private static final byte MUTED = 3;

  private final int version;
  private byte[] data;
  private int at = 1;

  private Codec(byte[] data) {
    this.data = data;
    version = data[0];
    if (version < 1 || version > MUTED) {
      throw new IllegalStateException("UnreadableAsset: state of codec version " + version
          + ", expected at most " + MUTED);
    }
  }

  static byte[] write(Asset asset) {
    byte[] first = new byte[256];
    first[0] = version(asset);
    Codec out = new Codec(first);
    out.signed(asset.noted);
    out.asset(asset);
    return Arrays.copyOf(out.data, out.at);
  }

  private static byte version(Asset asset) {
    for (Asset.Vote vote : asset.votes) {
      if (vote.muted() != null) return MUTED;
    }
    return PLAIN;
  }

  /** Raises IllegalStateException for a version that is not known. */
  static Asset read(byte[] data) {
    Codec in = new Codec(data);
    long noted = in.signed();
    Asset asset = in.asset();
    asset.noted = noted;
    return asset;
  }

  /** `noted` alone, which the index of dues is made from. */
  static long noted(byte[] data) {
    return new Codec(data).signed();
  }

  // ---- an asset ----

  private void asset(Asset asset) {
    text(asset.state);
    text(asset.shown);
    text(asset.previous);
    signed(asset.since);
    signed(asset.unconfirmed ? 1 : 0);
    signed(asset.offset);
    signed(asset.votes.length);
    for (Asset.Vote vote : asset.votes) vote(vote, asset);
    pending(asset.pending);
    override(asset.override);
    signed(asset.step);
    signed(asset.changedOffset - asset.offset);
    signed(asset.changedStep);
    signed(asset.reminded - asset.since);
    signed(asset.emittedAt - asset.since);
    signed(asset.answers.length);
    for (Asset.Answer answer : asset.answers) {
      id(answer.command());
      text(answer.outcome());
    }
    signed(asset.forgetAt);
  }

  private Asset asset() {
    Asset asset = new Asset();
    asset.state = text();
    asset.shown = text();
    asset.previous = text();
    asset.since = signed();
    asset.unconfirmed = signed() == 1;
    if (version > 1) asset.offset = signed();
    asset.votes = new Asset.Vote[(int) signed()];
    for (int i = 0; i < asset.votes.length; i++) asset.votes[i] = vote(asset);
    asset.pending = pending();
    asset.override = override();
    if (version == 1) asset.offset = signed();
    asset.step = signed();
    asset.changedOffset = signed() + base(asset);
    asset.changedStep = signed();
    asset.reminded = asset.since + signed();
    asset.emittedAt = asset.since + signed();
    asset.answers = new Asset.Answer[(int) signed()];
    for (int i = 0; i < asset.answers.length; i++) {
      asset.answers[i] = new Asset.Answer(id(), text());
    }
    asset.forgetAt = signed();
    return asset;
  }

  /** What the offsets of an asset are counted from. */
  private long base(Asset asset) {
    return version == 1 ? 0 : asset.offset;
  }

  private void vote(Asset.Vote vote, Asset asset) {
    text(vote.agent());
    text(vote.state());
    signed(vote.time() - asset.since);
    signed(vote.reportedAt() - vote.time());
    signed(vote.offset() - asset.offset);
    signed(vote.expires() == Asset.NONE ? 0 : vote.expires() - vote.time() + 1);
    signed(vote.weight());
    text(vote.detail());
    if (version >= MUTED) muted(vote.muted());
  }

  private Asset.Vote vote(Asset asset) {
    String agent = text();
    String state = text();
    long time = asset.since + signed();
    long reportedAt = time + signed();
    long offset = signed() + base(asset);
    long life = signed();
    long expires = life == 0 ? Asset.NONE : time + life - 1;
    long weight = signed();
    String detail = text();
    return new Asset.Vote(agent, state, reportedAt, time, offset, expires, weight, detail,
        version >= MUTED ? muted() : null);
  }

  private void muted(Asset.Muted muted) {
    text(muted == null ? null : muted.user());
    if (muted != null) signed(muted.until());
  }

  private Asset.Muted muted() {
    String user = text();
    return user == null ? null : new Asset.Muted(signed(), user);
  }

  private void pending(Asset.Pending pending) {
    text(pending == null ? null : pending.state());
    if (pending == null) return;
    signed(pending.since());
    signed(pending.due());
  }

  private Asset.Pending pending() {
    String state = text();
    return state == null ? null : new Asset.Pending(state, signed(), signed());
  }

  private void override(Asset.Override pin) {
    text(pin == null ? null : pin.state());
    if (pin == null) return;
    signed(pin.until());
    text(pin.user());
    text(pin.reason());
    id(pin.command());
    signed(pin.since());
    text(pin.underlying());
  }

  private Asset.Override override() {
    String state = text();
    if (state == null) return null;
    return new Asset.Override(state, signed(), text(), text(), id(), signed(), text());
  }

  // ---- bytes ----

  /** A command's id: a UUID in lower case. */
  private void id(String id) {
    UUID uuid = UUID.fromString(id);
    room(16);
    ByteBuffer.wrap(data, at, 16).putLong(uuid.getMostSignificantBits())
        .putLong(uuid.getLeastSignificantBits());
    at += 16;
  }

  private String id() {
    if (version == 1) return text();
    ByteBuffer in = ByteBuffer.wrap(data, at, 16);
    at += 16;
    return new UUID(in.getLong(), in.getLong()).toString();
  }

  private void room(int more) {
    if (at + more > data.length) data = Arrays.copyOf(data, Math.max(2 * data.length, at + more));
  }

  private void signed(long value) {
    room(10);
    long left = value << 1 ^ value >> 63;
    while ((left & ~0x7fL) != 0) {
      data[at++] = (byte) (left | 0x80);
      left >>>= 7;
    }
    data[at++] = (byte) left;
  }

  private long signed() {
    long found = 0;
    for (int shift = 0;; shift += 7) {
      byte one = data[at++];
      found |= (one & 0x7fL) << shift;
      if (one >= 0) return found >>> 1 ^ -(found & 1);
    }
  }

  private void text(String text) {
    if (text == null) {
      signed(0);
      return;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    signed(bytes.length + 1L);
    room(bytes.length);
    System.arraycopy(bytes, 0, data, at, bytes.length);
    at += bytes.length;
  }

  private String text() {
    int length = (int) signed() - 1;
    if (length < 0) return null;
    at += length;
    return new String(data, at - length, length, StandardCharsets.UTF_8);
  }
}
