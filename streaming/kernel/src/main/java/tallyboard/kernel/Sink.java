package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Records of the sink topics as bytes: wire/sink.py, to the byte. */
final class Sink {
  private static final int MAX_DEAD_VALUE = 65_536;

  private Sink() {}

  /** A record of a states topic. */
  static SinkRecord state(String topic, long epoch, String name, Asset asset, Rule rule,
      Cause cause, Asset.Answer answer) {
    String version = epoch + "." + asset.offset + "." + asset.step;
    List<Header> headers = new ArrayList<>(4);
    headers.add(header("version", version));
    if (answer != null) {
      headers.add(header("command", answer.command()));
      headers.add(header("outcome", answer.outcome()));
    }
    JsonBytes out = new JsonBytes(768);
    if (asset.shown == null) {
      cause(out, cause);
      headers.add(new Header("cause", out.bytes()));
      return record(bytes(name), null, headers, topic);
    }
    value(out, version, name, asset, rule, cause, answer);
    return record(bytes(name), out.bytes(), headers, topic);
  }

  private static void value(JsonBytes out, String version, String name, Asset asset, Rule rule,
      Cause cause, Asset.Answer answer) {
    out.append("{\"asset\":").text(name);
    out.append(",\"state\":").text(asset.shown);
    out.append(",\"previous\":").text(asset.previous);
    out.append(",\"since\":").append(asset.since);
    out.append(",\"unconfirmed\":").append(asset.unconfirmed != null);
    if (asset.unconfirmed != null) out.append(",\"unconfirmed_reason\":").text(asset.unconfirmed);
    if (asset.disputed != null) out.append(",\"disputed\":").text(asset.disputed);
    out.append(",\"version\":\"").append(version).append("\",\"cause\":");
    cause(out, cause);
    out.append(",\"votes\":[");
    for (int i = 0; i < asset.votes.length; i++) {
      vote(i == 0 ? out : out.append(','), asset.votes[i]);
    }
    pending(out.append("],\"pending\":"), asset.pending(rule));
    override(out.append(",\"override\":"), asset.override);
    if (asset.doubts.length > 0) doubts(out, asset);
    if (asset.tasks.length > 0) tasks(out, asset, cause);
    answer(out.append(",\"answer\":"), answer);
    out.append('}');
  }

  private static void cause(JsonBytes out, Cause cause) {
    out.append("{\"type\":").text(cause.type());
    out.append(",\"partition\":").append(cause.partition());
    out.append(",\"offset\":").append(cause.offset());
    out.append(",\"time\":").append(cause.time());
    out.append(",\"agent\":").text(cause.agent());
    out.append(",\"user\":").text(cause.user());
    out.append(",\"command\":").text(cause.command());
    out.append('}');
  }

  private static void vote(JsonBytes out, Asset.Vote vote) {
    out.append("{\"agent\":").text(vote.agent());
    out.append(",\"state\":").text(vote.state());
    out.append(",\"reported_at\":").append(vote.reportedAt());
    out.append(",\"time\":").append(vote.time());
    out.append(",\"offset\":").append(vote.offset());
    time(out.append(",\"expires\":"), vote.expires());
    out.append(",\"weight\":").append(vote.weight());
    out.append(",\"detail\":").json(vote.detail());
    if (vote.muted() != null) muted(out.append(",\"muted\":"), vote.muted());
    if (vote.silent() != Rule.NONE) out.append(",\"silent\":").append(vote.silent());
    if (vote.doubt() != null) out.append(",\"doubt\":").text(vote.doubt());
    if (vote.detailFault() != null) out.append(",\"detail_fault\":").text(vote.detailFault());
    if (vote.flapping() != null) flap(out.append(",\"flapping\":"), vote.flap());
    out.append('}');
  }

  private static void flap(JsonBytes out, Asset.Flap flap) {
    out.append("{\"state\":").text(flap.state());
    out.append(",\"time\":").append(flap.time());
    out.append(",\"until\":").append(flap.until());
    out.append('}');
  }

  private static void muted(JsonBytes out, Asset.Muted muted) {
    time(out.append("{\"until\":"), muted.until());
    out.append(",\"user\":").text(muted.user());
    out.append('}');
  }

  private static void pending(JsonBytes out, Asset.Pending pending) {
    if (pending == null) {
      out.append("null");
      return;
    }
    out.append("{\"state\":").text(pending.state());
    out.append(",\"since\":").append(pending.since());
    out.append(",\"due\":").append(pending.due()).append('}');
  }

  private static void override(JsonBytes out, Asset.Override pin) {
    if (pin == null) {
      out.append("null");
      return;
    }
    out.append("{\"state\":").text(pin.state());
    time(out.append(",\"until\":"), pin.until());
    out.append(",\"user\":").text(pin.user());
    out.append(",\"reason\":").text(pin.reason());
    out.append(",\"command\":").text(pin.command());
    out.append(",\"since\":").append(pin.since());
    out.append(",\"underlying\":").text(pin.underlying());
    out.append('}');
  }

  private static void doubts(JsonBytes out, Asset asset) {
    out.append(",\"doubts\":[");
    for (int i = 0; i < asset.doubts.length; i++) {
      doubt(i == 0 ? out : out.append(','), asset.doubts[i]);
    }
    out.append(']');
  }

  private static void doubt(JsonBytes out, Asset.Doubt doubt) {
    out.append("{\"agent\":").text(doubt.agent());
    out.append(",\"reason\":").text(doubt.reason());
    out.append(",\"said\":").text(doubt.said());
    out.append(",\"time\":").append(doubt.time());
    out.append(",\"offset\":").append(doubt.offset());
    out.append(",\"until\":").append(doubt.until());
    out.append(",\"weight\":").append(doubt.weight());
    if (doubt.muted() != null) muted(out.append(",\"muted\":"), doubt.muted());
    out.append('}');
  }

  /** Tasks, and whether the record is to be notified of. */
  private static void tasks(JsonBytes out, Asset asset, Cause cause) {
    out.append(",\"tasks\":[");
    for (int i = 0; i < asset.tasks.length; i++) {
      task(i == 0 ? out : out.append(','), asset.tasks[i]);
    }
    out.append(']');
    if (notifies(asset, cause)) out.append(",\"notify\":true");
  }

  private static boolean notifies(Asset asset, Cause cause) {
    if (!cause.type().equals("schedule")) return false;
    for (Asset.Task task : asset.tasks) {
      if (task.id().equals(cause.command()) && task.action().equals("notify")) {
        return Commands.APPLIED.equals(task.outcome());
      }
    }
    return false;
  }

  private static void task(JsonBytes out, Asset.Task task) {
    out.append("{\"id\":").text(task.id());
    out.append(",\"do\":").text(task.action());
    out.append(",\"state\":").text(task.state());
    out.append(",\"if\":").text(task.condition());
    time(out.append(",\"next\":"), task.due());
    time(out.append(",\"every\":"), task.every());
    time(out.append(",\"until\":"), task.until());
    time(out.append(",\"times\":"), task.times());
    out.append(",\"within\":").text(task.within());
    out.append(",\"user\":").text(task.user());
    out.append(",\"reason\":").text(task.reason());
    out.append(",\"outcome\":").text(task.outcome());
    time(out.append(",\"ran\":"), task.ran());
    out.append(",\"aside\":").text(task.aside());
    out.append('}');
  }

  private static void answer(JsonBytes out, Asset.Answer answer) {
    if (answer == null) {
      out.append("null");
      return;
    }
    out.append("{\"command\":").text(answer.command());
    out.append(",\"outcome\":").text(answer.outcome());
    out.append('}');
  }

  private static void time(JsonBytes out, long time) {
    if (time == Rule.NONE) out.append("null");
    else out.append(time);
  }

  /** A dead letter: the record as it came, with where it lay and why it was refused. */
  static SinkRecord deadLetter(String to, String reason, String topic, int partition, SourceRow record) {
    List<Header> headers = new ArrayList<>();
    headers.add(header("reason", reason));
    headers.add(header("source-topic", topic));
    headers.add(header("source-partition", Integer.toString(partition)));
    headers.add(header("source-offset", Long.toString(record.offset())));
    headers.add(header("source-timestamp", Long.toString(record.time())));
    for (Header original : record.headers()) {
      byte[] value = original.value() == null ? new byte[0] : original.value();
      headers.add(new Header("original-" + original.name(), value));
    }
    byte[] value = record.value();
    boolean long_ = value != null && value.length > MAX_DEAD_VALUE;
    return record(record.key(), long_ ? Arrays.copyOf(value, MAX_DEAD_VALUE) : value, headers, to);
  }

  private static Header header(String name, String value) {
    return new Header(name, bytes(value));
  }

  private static SinkRecord record(byte[] key, byte[] value, List<Header> headers, String topic) {
    return new SinkRecord(key, value, headers.toArray(Header[]::new), topic);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
