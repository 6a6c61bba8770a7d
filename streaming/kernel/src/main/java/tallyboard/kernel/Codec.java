package tallyboard.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;

/**
 * An asset as bytes for the state store. The first byte is the codec's version. Integers are
 * variable-length (zigzag, 7 bits a byte, the least first); texts are UTF-8 after their length plus
 * one, zero for null; offsets are differences from the asset's own; a command's id has 16 bytes.
 */
final class Codec {
  private static final byte CURRENT = 7;
  /** What a vote has beyond a plain one: these bits, and after them the fields in this order. */
  private static final int HAS_MUTE = 1, HAS_SILENCE = 2, HAS_ORDER = 4, HAS_AGE = 8,
      HAS_DOUBT = 16, HAS_DETAIL_FAULT = 32, HAS_FLAP = 64, HAS_CLAIM = 128;

  private final Texts texts = Texts.own();
  private byte[] data;
  private int at = 1;

  private Codec(byte[] data) {
    this.data = data;
    if (data[0] != CURRENT) {
      throw new IllegalStateException("UnreadableAsset: state of codec version " + data[0]
          + ", expected " + CURRENT);
    }
  }

  static byte[] write(Asset asset) {
    byte[] first = new byte[128 + 64 * asset.votes.length]; // mostly enough
    first[0] = CURRENT;
    Codec out = new Codec(first);
    out.signed(asset.noted);
    out.asset(asset);
    return Arrays.copyOf(out.data, out.at);
  }

  /** Raises IllegalStateException for another version. */
  static Asset read(byte[] data) {
    Codec in = new Codec(data);
    long noted = in.signed();
    Asset asset = in.asset();
    asset.noted = noted;
    return asset;
  }

  /** Reads `noted` alone, which the timer index is made from. */
  static long noted(byte[] data) {
    return new Codec(data).signed();
  }

  // ---- an asset ----

  private void asset(Asset asset) {
    text(asset.state);
    text(asset.shown);
    text(asset.previous);
    signed(asset.since);
    text(asset.unconfirmed);
    text(asset.disputed);
    signed(asset.offset);
    signed(asset.votes.length);
    for (Asset.Vote vote : asset.votes) vote(vote, asset);
    signed(asset.waits.length);
    for (Asset.Wait wait : asset.waits) {
      text(wait.state());
      signed(wait.since());
    }
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
      text(answer.cause());
      text(answer.user());
    }
    signed(asset.forgetAt);
    signed(asset.purgedAt);
    signed(asset.tasks.length);
    for (Asset.Task task : asset.tasks) task(task);
    signed(asset.doubts.length);
    for (Asset.Doubt doubt : asset.doubts) doubt(doubt, asset);
    signed(asset.settled);
  }

  private Asset asset() {
    Asset asset = new Asset();
    asset.state = text();
    asset.shown = text();
    asset.previous = text();
    asset.since = signed();
    asset.unconfirmed = text();
    asset.disputed = text();
    asset.offset = signed();
    asset.votes = new Asset.Vote[(int) signed()];
    for (int i = 0; i < asset.votes.length; i++) asset.votes[i] = vote(asset);
    asset.waits = waits();
    asset.override = override();
    asset.step = signed();
    asset.changedOffset = signed() + asset.offset;
    asset.changedStep = signed();
    asset.reminded = asset.since + signed();
    asset.emittedAt = asset.since + signed();
    asset.answers = new Asset.Answer[(int) signed()];
    for (int i = 0; i < asset.answers.length; i++) {
      asset.answers[i] = new Asset.Answer(id(), text(), text(), text());
    }
    asset.forgetAt = signed();
    asset.purgedAt = signed();
    asset.tasks = tasks();
    asset.doubts = doubts(asset);
    asset.settled = signed();
    return asset;
  }

  private void doubt(Asset.Doubt doubt, Asset asset) {
    text(doubt.agent());
    text(doubt.reason());
    text(doubt.said());
    signed(doubt.time() - asset.since);
    signed(doubt.offset() - asset.offset);
    signed(doubt.until() - doubt.time());
    signed(doubt.weight());
    if (doubt.muted() == null) text(null);
    else muted(doubt.muted());
  }

  private Asset.Doubt[] doubts(Asset asset) {
    int count = (int) signed();
    if (count == 0) return Asset.NO_DOUBTS;
    Asset.Doubt[] doubts = new Asset.Doubt[count];
    for (int i = 0; i < count; i++) doubts[i] = doubt(asset);
    return doubts;
  }

  private Asset.Doubt doubt(Asset asset) {
    String agent = text();
    String reason = text();
    String said = text();
    long time = asset.since + signed();
    return new Asset.Doubt(agent, reason, said, time, asset.offset + signed(), time + signed(),
        signed(), muted());
  }

  private void task(Asset.Task task) {
    id(task.id());
    text(task.action());
    text(task.user());
    text(task.reason());
    signed(task.due());
    text(task.state());
    text(task.condition());
    signed(task.every());
    signed(task.until());
    signed(task.times());
    text(task.within());
    text(task.outcome());
    signed(task.ran());
    text(task.aside());
  }

  private Asset.Task[] tasks() {
    int count = (int) signed();
    if (count == 0) return Asset.NO_TASKS;
    Asset.Task[] tasks = new Asset.Task[count];
    for (int i = 0; i < count; i++) {
      tasks[i] = new Asset.Task(id(), text(), text(), text(), signed(), text(), text(), signed(),
          signed(), signed(), text(), text(), signed(), text());
    }
    return tasks;
  }

  private Asset.Wait[] waits() {
    int count = (int) signed();
    if (count == 0) return Asset.NO_WAITS;
    Asset.Wait[] waits = new Asset.Wait[count];
    for (int i = 0; i < count; i++) waits[i] = new Asset.Wait(text(), signed());
    return waits;
  }

  private void vote(Asset.Vote vote, Asset asset) {
    text(vote.agent());
    text(vote.state());
    signed(vote.time() - asset.since);
    signed(vote.reportedAt() - vote.time());
    signed(vote.offset() - asset.offset);
    signed(life(vote));
    signed(vote.weight());
    text(vote.detail());
    long order = Math.min(vote.reportedAt(), vote.time());
    long age = vote.time() - order;
    signed((vote.muted() == null ? 0 : HAS_MUTE) | (vote.silent() == Asset.NONE ? 0 : HAS_SILENCE)
        | (vote.order() == order ? 0 : HAS_ORDER) | (vote.age() == age ? 0 : HAS_AGE)
        | (vote.doubt() == null ? 0 : HAS_DOUBT) | (vote.flap() == null ? 0 : HAS_FLAP)
        | (vote.detailFault() == null ? 0 : HAS_DETAIL_FAULT)
        | (vote.claimed() == vote.reportedAt() ? 0 : HAS_CLAIM));
    if (vote.muted() != null) muted(vote.muted());
    if (vote.silent() != Asset.NONE) signed(vote.silent() - vote.time());
    if (vote.order() != order) signed(vote.order() - order);
    if (vote.age() != age) signed(vote.age() - age);
    if (vote.doubt() != null) text(vote.doubt());
    if (vote.detailFault() != null) text(vote.detailFault());
    if (vote.flap() != null) flap(vote.flap(), vote);
    if (vote.claimed() != vote.reportedAt()) signed(vote.claimed() - vote.reportedAt());
  }

  private void flap(Asset.Flap flap, Asset.Vote vote) {
    text(flap.state());
    signed(flap.time() - vote.time());
    signed(flap.until() - flap.time());
    signed(flap.again() ? 1 : 0);
  }

  private Asset.Flap flap(long time) {
    String state = text();
    long turned = time + signed();
    return new Asset.Flap(state, turned, turned + signed(), signed() == 1);
  }

  private Asset.Vote vote(Asset asset) {
    String agent = text();
    String state = text();
    long time = asset.since + signed();
    long reportedAt = time + signed();
    long offset = signed() + asset.offset;
    long life = signed();
    long expires = life == 0 ? Asset.NONE : life > 0 ? time + life - 1 : time + life;
    long weight = signed();
    String detail = text();
    long has = signed();
    Asset.Muted muted = (has & HAS_MUTE) == 0 ? null : muted();
    long silent = (has & HAS_SILENCE) == 0 ? Asset.NONE : time + signed();
    long order = Math.min(reportedAt, time);
    long age = time - order;
    if ((has & HAS_ORDER) != 0) order += signed();
    if ((has & HAS_AGE) != 0) age += signed();
    String doubt = (has & HAS_DOUBT) == 0 ? null : text();
    String detailFault = (has & HAS_DETAIL_FAULT) == 0 ? null : text();
    Asset.Flap flap = (has & HAS_FLAP) == 0 ? null : flap(time);
    long claimed = (has & HAS_CLAIM) == 0 ? reportedAt : reportedAt + signed();
    return new Asset.Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
        silent, order, age, doubt, detailFault, flap, claimed);
  }

  /** Returns how long a vote lives from its time on, as it is written: 0 for ever, else never 0. */
  private static long life(Asset.Vote vote) {
    if (vote.expires() == Asset.NONE) return 0;
    long life = vote.expires() - vote.time();
    return life < 0 ? life : life + 1;
  }

  private void muted(Asset.Muted muted) {
    text(muted.user());
    signed(muted.until());
  }

  private Asset.Muted muted() {
    String user = text();
    return user == null ? null : new Asset.Muted(signed(), user);
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
    ByteBuffer in = ByteBuffer.wrap(data, at, 16);
    at += 16;
    return new UUID(in.getLong(), in.getLong()).toString();
  }

  private void room(int more) {
    if (at + more > data.length) data = Arrays.copyOf(data, Math.max(2 * data.length, at + more));
  }

  private void signed(long value) {
    room(10);
    long rest = value << 1 ^ value >> 63;
    while ((rest & ~0x7fL) != 0) {
      data[at++] = (byte) (rest | 0x80);
      rest >>>= 7;
    }
    data[at++] = (byte) rest;
  }

  private long signed() {
    long bits = 0;
    for (int shift = 0;; shift += 7) {
      byte next = data[at++];
      bits |= (next & 0x7fL) << shift;
      if (next >= 0) return bits >>> 1 ^ -(bits & 1);
    }
  }

  private void text(String text) {
    if (text == null) {
      signed(0);
      return;
    }
    if (JsonBytes.isPlain(text)) {
      plain(text);
      return;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    signed(bytes.length + 1L);
    room(bytes.length);
    System.arraycopy(bytes, 0, data, at, bytes.length);
    at += bytes.length;
  }

  @SuppressWarnings("deprecation") // the one copy that makes no array; all are ASCII
  private void plain(String text) {
    signed(text.length() + 1L);
    room(text.length());
    text.getBytes(0, text.length(), data, at);
    at += text.length();
  }

  private String text() {
    int length = (int) signed() - 1;
    if (length < 0) return null;
    at += length;
    return texts.of(data, at - length, length);
  }
}
