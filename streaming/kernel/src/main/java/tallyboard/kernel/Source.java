package tallyboard.kernel;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.Utils;

/**
 * Records of a source topic out of bytes: wire/source.py, check by check in the same order, so that
 * both engines give the same reason for the same bytes.
 */
final class Source {
  /** A record of the log. `Unreadable` goes to the dead letters, `Refusal` is answered. */
  sealed interface Entry
      permits Report, RefusedReport, Leave, Misrouted, Tick, Signed, Unsigned, Unreadable {}

  /** What commands something: only one of ours may have written it. */
  sealed interface Signed extends Entry
      permits Command, Change, UnknownFold, Mute, Unmute, Refusal {}

  /**
   * ahead: of the record's own append time, ms; detailFault: why the detail is left out; sunk: why a
   * rule before CLAIM_FOLD refuses the whole record, or null.
   */
  record Report(String asset, String agent, String state, long reportedAt, String detail,
      long ahead, String detailFault, String sunk) implements Entry {}

  /** One that cannot be taken. said: null where nobody can read it; the last two: as in a report. */
  record RefusedReport(String asset, String agent, String said, String reason,
      String detailFault, String sunk) implements Entry {}

  /** ahead: as in a report. */
  record Leave(String asset, String agent, long reportedAt, long ahead) implements Entry {}

  /** A report or a leave that has no key, or lies on another partition than its asset belongs to. */
  record Misrouted(String asset, String agent) implements Entry {}

  /** schedule: of a `schedule` command what it asks for; task: of a `cancel` command which it ends. */
  record Command(String kind, String asset, String id, String user, String reason, String state,
      long until, long[] ifVersion, Schedule schedule, String task) implements Signed {}

  record Schedule(String action, String condition, long after, long at, long every, long times) {}

  record Tick() implements Entry {}

  record Change(Rule rule) implements Signed {}

  record UnknownFold(String scenario, long fold) implements Signed {}

  record Mute(Mutes.Mute mute) implements Signed {}

  record Unmute(String agent, String user, String id) implements Signed {}

  record Refusal(String asset, String id, String user, String reason) implements Signed {}

  /** A record that bears no signature; the rule in force takes it or not. */
  record Unsigned(Signed entry) implements Entry {}

  record Unreadable(String reason) implements Entry {}

  static final long NONE = Rule.NONE;
  private static final int MAX_RECORD = 65_536;
  private static final int MAX_BRACKETS = 300;
  private static final int MAX_DETAIL = 2_048;
  private static final int MAX_REASON = 500;
  private static final long MAX_FOLD = 1_000_000;
  private static final long MAX_TIME = 253_402_300_799_999L;
  private static final Set<String> COMMANDS = Set.of("set", "vote", "release", "purge", "schedule", "cancel");
  private static final Pattern UUID =
      Pattern.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}");
  private static final Pattern VERSION = Pattern.compile("[0-9]+\\.[0-9]+\\.[0-9]+");
  private static final Tick TICK = new Tick();

  private Source() {}

  /**
   * Reads a record that lies in `partition` of `partitions`. functions: the rules that there are in
   * Python.
   */
  static Entry read(SourceRow row, int partition, int partitions, Set<String> functions) {
    byte[] key = row.key();
    Entry entry = read(key, row.value(), row.time(), functions);
    boolean forwardable =
        entry instanceof Report || entry instanceof RefusedReport || entry instanceof Leave;
    if (!forwardable && !(entry instanceof Command || entry instanceof Refusal)) return entry;
    boolean keyed = key != null && key.length > 0;
    if (keyed && partitionOf(key, partitions) == partition) {
      return row.headers().isEmpty() ? entry : asFirstAppended(entry, row);
    }
    if (!forwardable || !Forward.canForward(row)) return new Unreadable("wrong-partition");
    return misrouted(entry);
  }

  /** Returns the partition that a key belongs on, out of so many. */
  static int partitionOf(byte[] key, int partitions) {
    return Utils.toPositive(Utils.murmur2(key)) % partitions;
  }

  private static Misrouted misrouted(Entry entry) {
    if (entry instanceof Report report) return new Misrouted(report.asset(), report.agent());
    if (entry instanceof Leave leave) return new Misrouted(leave.asset(), leave.agent());
    RefusedReport refused = (RefusedReport) entry;
    return new Misrouted(refused.asset(), refused.agent());
  }

  /** A forwarded record without a time of its own was made when it was first appended. */
  private static Entry asFirstAppended(Entry entry, SourceRow row) {
    long first = Forward.firstAppendedAt(row);
    if (first == NONE || first > row.time()) return entry;
    if (entry instanceof Report report && report.reportedAt() == NONE) {
      return new Report(report.asset(), report.agent(), report.state(), first, report.detail(), 0,
          report.detailFault(), report.sunk());
    }
    if (entry instanceof Leave leave && leave.reportedAt() == NONE) {
      return new Leave(leave.asset(), leave.agent(), first, 0);
    }
    return entry;
  }

  private static Entry read(byte[] key, byte[] value, long time, Set<String> functions) {
    if (value == null) return new Unreadable("not-json");
    if (value.length > MAX_RECORD || brackets(value) > MAX_BRACKETS) {
      return salvaged(key, value, time, new Unreadable("too-large"));
    }
    if (!Json.isUtf8(value)) return salvaged(key, value, time, new Unreadable("not-utf8"));
    Json.Document document;
    try {
      document = Json.read(value);
    } catch (Json.Bad error) {
      return salvaged(key, value, time, new Unreadable("not-json"));
    }
    if (!(document.value() instanceof Map<?, ?> data)) return new Unreadable("unknown-type");
    return entry(key, data, document, time, functions);
  }

  private static int brackets(byte[] value) {
    int brackets = 0;
    for (byte each : value) {
      if (each == '[' || each == '{') brackets++;
    }
    return brackets;
  }

  private static Entry entry(byte[] key, Map<?, ?> data, Json.Document document, long time,
      Set<String> functions) {
    Object type = data.get("type");
    if ("tick".equals(type)) return TICK;
    if ("scenario".equals(type)) return change(data, document, functions);
    if ("mute".equals(type)) return mute(data, true);
    if ("unmute".equals(type)) return mute(data, false);
    boolean report = "report".equals(type);
    boolean leave = "leave".equals(type);
    if (!report && !leave && !(type instanceof String && COMMANDS.contains(type))) {
      return new Unreadable("unknown-type");
    }
    boolean keyed = key != null && key.length > 0;
    String asset = keyed ? Json.utf8(key) : report || leave ? assetIn(data) : "";
    if (asset == null) return new Unreadable("not-utf8");
    if (!Names.ok(asset)) return new Unreadable("bad-asset");
    if (leave) return leave(asset, data, time);
    return report ? report(asset, data, document, time) : command(asset, (String) type, data);
  }

  /** Returns the asset of a record without a key, which has it in its value; empty for none. */
  private static String assetIn(Map<?, ?> data) {
    return data.get("asset") instanceof String asset ? asset : "";
  }

  private static Entry change(Map<?, ?> data, Json.Document document, Set<String> functions) {
    if (!(data.get("scenario") instanceof Map<?, ?> plain)) return new Unreadable("bad-scenario");
    if (plain.get("name") instanceof String name && plain.get("fold") instanceof Long fold
        && Rule.FOLD < fold && fold <= MAX_FOLD) {
      return new UnknownFold(name, fold);
    }
    try {
      return new Change(new Rule(plain, document.text("scenario"), functions));
    } catch (Rule.Bad error) {
      return new Unreadable("bad-scenario");
    }
  }

  private static Entry mute(Map<?, ?> data, boolean muting) {
    if (!agentOk(data.get("agent"))) return new Unreadable("bad-agent");
    String agent = (String) data.get("agent");
    if (!(data.get("id") instanceof String given) || !UUID.matcher(given).matches()) {
      return new Unreadable("bad-command");
    }
    String id = given.toLowerCase(java.util.Locale.ROOT);
    Object reason = data.get("reason");
    if (!userOk(data.get("user")) || !reasonOk(reason)) return new Unreadable("bad-field");
    String user = (String) data.get("user");
    if (!muting) return new Unmute(agent, user, id);
    Object until = data.get("until");
    if (until != null && !timeOk(until, MAX_TIME)) return new Unreadable("bad-time");
    return new Mute(new Mutes.Mute(agent, until == null ? NONE : (Long) until, user,
        reason == null ? "" : (String) reason, id));
  }

  private static boolean agentOk(Object agent) {
    return agent instanceof String name && Names.ok(name) && !name.startsWith(Names.USER);
  }

  private static boolean userOk(Object user) {
    return user instanceof String name && !name.isEmpty() && Names.ok(Names.USER + name);
  }

  private static boolean reasonOk(Object reason) {
    return reason == null
        || reason instanceof String text && Names.length(text) <= MAX_REASON;
  }

  private static Entry report(String asset, Map<?, ?> data, Json.Document document, long time) {
    Object agent = data.get("agent");
    if (!agentOk(agent)) return new Unreadable("bad-agent");
    Object state = data.get("state");
    Object at = data.get("reported_at");
    Object detail = data.get("detail");
    String text = detail instanceof Map ? document.text("detail") : null;
    String detailFault = detailFault(detail, text);
    String said = state instanceof String name && Names.stateOk(name) ? name : null;
    String fault = claimFault(state, said, at);
    if (fault != null) {
      return new RefusedReport(asset, (String) agent, said, fault, detailFault, null);
    }
    return new Report(asset, (String) agent, said, number(at), detailFault == null ? text : null,
        ahead(number(at), time), detailFault, null);
  }

  /** Returns why a report's state or time cannot be taken, or null where both can be. */
  private static String claimFault(Object state, String said, Object at) {
    if (!(state instanceof String)) return "bad-field";
    if (said == null) return "unknown-state";
    if (at != null && !timeOk(at, MAX_TIME)) return "bad-time";
    return null;
  }

  /** Returns why a report's detail is left out, or null. text: the detail as it came. */
  private static String detailFault(Object detail, String text) {
    if (detail == null) return null;
    if (text == null) return "bad-field";
    return bytes(text) > MAX_DETAIL ? "too-large" : null;
  }

  /** Returns the report in a record that cannot be read as a whole, or the record's refusal. */
  private static Entry salvaged(byte[] key, byte[] value, long time, Unreadable refusal) {
    Salvage members = new Salvage(value);
    boolean keyed = key != null && key.length > 0;
    String asset = keyed ? Json.utf8(key) : members.plain("asset") instanceof String in ? in : "";
    Object agent = members.plain("agent");
    boolean named = asset != null && Names.ok(asset) && agentOk(agent);
    if (!named || !"report".equals(members.plain("type"))) return refusal;
    Object state = members.plain("state");
    Object at = members.plain("reported_at");
    byte[] detail = members.span("detail");
    String detailFault = salvagedFault(detail);
    String said = state instanceof String name && Names.stateOk(name) ? name : null;
    String fault = members.whole ? claimFault(state, said, at) : "not-json";
    String sunk = refusal.reason();
    if (fault != null) {
      return new RefusedReport(asset, (String) agent, said, fault, detailFault, sunk);
    }
    String text = detail == null || detailFault != null ? null : Json.utf8(detail);
    return new Report(asset, (String) agent, said, number(at), text, ahead(number(at), time),
        detailFault, sunk);
  }

  /** Returns why a detail in such a record is left out, or null. */
  private static String salvagedFault(byte[] detail) {
    if (detail == null) return null;
    if (detail.length == 0 || detail[0] != '{') return "bad-field";
    boolean large = detail.length > MAX_DETAIL || brackets(detail) > MAX_BRACKETS;
    String fault = large ? "too-large" : "bad-field";
    return !large && Json.isUtf8(detail) && Json.isJson(detail) ? null : fault;
  }

  /** Returns how far an agent's clock is ahead of the broker's, ms. */
  private static long ahead(long reportedAt, long time) {
    return reportedAt == NONE ? 0 : Math.max(0, reportedAt - time);
  }

  private static Entry leave(String asset, Map<?, ?> data, long time) {
    Object agent = data.get("agent");
    Object at = data.get("reported_at");
    if (!agentOk(agent)) return new Unreadable("bad-agent");
    if (at != null && !timeOk(at, MAX_TIME)) return new Unreadable("bad-time");
    return new Leave(asset, (String) agent, number(at), ahead(number(at), time));
  }

  private static int bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }

  private static boolean timeOk(Object value, long latest) {
    return value instanceof Long at && 0 <= at && at <= latest;
  }

  private static Entry command(String asset, String kind, Map<?, ?> data) {
    if (!(data.get("id") instanceof String given) || !UUID.matcher(given).matches()) {
      return new Unreadable("bad-command");
    }
    String id = given.toLowerCase(java.util.Locale.ROOT);
    if (!userOk(data.get("user"))) return new Refusal(asset, id, "", "user: expected a name");
    String user = (String) data.get("user");
    String fault = fault(kind, data);
    if (fault != null) return new Refusal(asset, id, user, fault);
    Object reason = data.get("reason");
    Object until = data.get("until");
    return new Command(kind, asset, id, user, reason == null ? "" : (String) reason,
        (String) data.get("state"), until == null ? NONE : (Long) until,
        version(data.get("if_version")), kind.equals("schedule") ? schedule(data) : null,
        kind.equals("cancel") ? ((String) data.get("task")).toLowerCase(java.util.Locale.ROOT) : null);
  }

  private static Schedule schedule(Map<?, ?> data) {
    return new Schedule((String) data.get("do"), (String) data.get("if"),
        number(data.get("after")), number(data.get("at")), number(data.get("every")),
        number(data.get("times")));
  }

  private static long number(Object value) {
    return value == null ? NONE : (Long) value;
  }

  /** Returns what is wrong with a command's fields, or null. */
  private static String fault(String kind, Map<?, ?> data) {
    Object reason = data.get("reason");
    Object state = data.get("state");
    Object until = data.get("until");
    if (!reasonOk(reason)) {
      return "reason: expected a text of at most " + MAX_REASON + " characters";
    }
    if (state == null && (kind.equals("set") || kind.equals("vote"))) {
      return "state: expected a state";
    }
    if (state != null && !(state instanceof String name && Names.stateOk(name))) {
      return "unknown state";
    }
    if (until != null && !timeOk(until, MAX_TIME)) return "until: expected Unix milliseconds";
    Object version = data.get("if_version");
    if (version != null && version(version) == null) {
      return "if_version: expected epoch.offset.step";
    }
    if (kind.equals("schedule")) return scheduleFault(data);
    if (kind.equals("cancel") && !uuidOk(data.get("task"))) return "task: expected a UUID";
    return null;
  }

  /** Returns what is wrong with the fields that a `schedule` command alone has, or null. */
  private static String scheduleFault(Map<?, ?> data) {
    Object action = data.get("do");
    Object condition = data.get("if");
    if (!(action instanceof String known && Rule.ACTIONS.contains(known))) {
      return "do: expected one of emit, notify, set, release, purge";
    }
    if (action.equals("set") && data.get("state") == null) return "state: expected a state";
    if (condition != null && !(condition instanceof String name && Names.stateOk(name))) {
      return "if: expected a state";
    }
    return runsFault(data);
  }

  /** Returns what is wrong with the fields that say when a task runs, or null. */
  private static String runsFault(Map<?, ?> data) {
    Object after = data.get("after");
    Object at = data.get("at");
    Object every = data.get("every");
    Object times = data.get("times");
    for (String name : new String[] {"after", "every"}) {
      Object value = data.get(name);
      if (value != null && !wholeOk(value, Rule.LEAST_PERIOD, Rule.MAX_DURATION)) {
        return name + ": expected milliseconds, from 1 second to 366 days";
      }
    }
    if (at != null && !timeOk(at, MAX_TIME)) return "at: expected Unix milliseconds";
    if (times != null && !wholeOk(times, 1, Rule.MAX_RUNS)) {
      return "times: expected an integer from 1 to " + Rule.MAX_RUNS;
    }
    if (after != null && at != null) return "after: expected none with at";
    if (after == null && at == null && every == null) {
      return "after: expected a time, or at or every";
    }
    return every == null && times != null ? "times: expected none without every" : null;
  }

  private static boolean wholeOk(Object value, long low, long high) {
    return value instanceof Long number && low <= number && number <= high;
  }

  private static boolean uuidOk(Object value) {
    return value instanceof String text && UUID.matcher(text).matches();
  }

  /** Epoch, offset and step out of `1.42.0`, or null. */
  private static long[] version(Object value) {
    if (!(value instanceof String text) || text.length() > 64 || !VERSION.matcher(text).matches()) {
      return null;
    }
    String[] parts = text.split("\\.");
    long[] numbers = new long[parts.length];
    for (int i = 0; i < parts.length; i++) {
      BigInteger part = new BigInteger(parts[i]);
      if (part.bitLength() >= Long.SIZE) return null;
      numbers[i] = part.longValue();
    }
    return numbers;
  }
}
