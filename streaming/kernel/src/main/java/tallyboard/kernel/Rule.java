package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A scenario as the fold uses it, read from the JSON that domain/scenario.py writes, with the same
 * checks. Durations in ms; a duration or weight that is not there is NONE.
 */
final class Rule {
  /** Not a scenario. */
  static final class Bad extends Exception {
    Bad() {
      super("not a scenario", null, false, false);
    }
  }

  /** A threshold of the ladder: q = 0: at least weight p; else at least (strict: more than) p/q. */
  record Threshold(String state, long p, long q, boolean strict) {
    boolean met(long weight, long whole) {
      if (q == 0) return weight >= p;
      return strict ? weight * q > p * whole : weight > 0 && weight * q >= p * whole;
    }
  }

  /** A task that it starts: with the state `on`, or at a report of `onReport`. */
  record TaskRule(String id, String action, String on, String onReport, String state,
      String condition, long after, long every, long times) {
    static TaskRule of(String action, String on, String onReport, String state, String condition,
        long after, long every, long times) {
      String text = Stream.of(action, on, onReport, state, condition, number(after), number(every),
          number(times)).map(part -> part == null ? "" : part).collect(Collectors.joining("\n"));
      String id = UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)).toString();
      return new TaskRule(id, action, on, onReport, state, condition, after, every, times);
    }

    private static String number(long number) {
      return number == NONE ? null : Long.toString(number);
    }

    long delay() {
      return after != NONE ? after : every;
    }

    /** Returns the state with which its task ends, null where it outlives it. */
    String within() {
      return condition == null || condition.equals(on) ? on : null;
    }
  }

  /** The version of the fold that this is. */
  static final long FOLD = 6;
  /** The version from which on a report that could not be taken makes its agent doubted. */
  private static final long DOUBT_FOLD = 5;
  /**
   * The version from which on an agent's reports are ordered by their claims, a change of rule loses
   * no word, and each field of a report is read by itself.
   */
  private static final long CLAIM_FOLD = 6;
  static final long NONE = -1;
  static final String KEEP = "keep";
  private static final long LEAST_MEMORY = 15 * 60_000;
  /** How long a vote lives under a rule with severity that names no lifetime, ms. */
  private static final long LONGEST_LIFE = 86_400_000;
  private static final long MAX_VOTERS = 1000;
  private static final long MAX_WEIGHT = 1_000_000;
  static final long MAX_DURATION = 366L * 86_400_000;
  static final long LEAST_PERIOD = 1_000;
  static final long MAX_RUNS = 1_000_000;
  private static final long MAX_RULE_TASKS = 16;
  static final List<String> ACTIONS = List.of("emit", "notify", "set", "release", "purge");
  private static final Map<String, Long> UNITS =
      Map.of("ms", 1L, "s", 1000L, "m", 60_000L, "h", 3_600_000L, "d", 86_400_000L);
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9-]{0,39}");
  private static final Pattern DURATION = Pattern.compile("([0-9]{1,9})(ms|s|m|h|d)");
  private static final Pattern FUNCTION = Pattern.compile("[a-z][a-z0-9_]{0,39}");
  private static final Pattern FRACTION = Pattern.compile("([0-9]{1,6})/([0-9]{1,6})");
  private static final List<String> COLOURS =
      List.of("red", "orange", "amber", "green", "teal", "blue", "violet", "grey");
  private static final List<String> ICONS =
      List.of("octagon", "triangle", "diamond", "circle", "square", "ring", "check", "cross",
          "arrow-up", "arrow-down", "box", "truck", "flag", "clock");

  final String text;
  final String name;
  final boolean latest;
  /** Whether the rule is written in Python: read so that it can be handed over, never applied. */
  final boolean inPython;
  final List<Threshold> ladder;
  final String fallback;
  /** Whether its states follow each other, and none is worse than another. */
  final boolean lifeCycle;
  /** The live voters that lowering a state takes, and raising it. */
  final long minVoters;
  final long raiseVoters;
  /** Whether a report is taken whose time is ahead, or whose detail is unusable. */
  final boolean lenient;
  /** Whether agents are doubted: where states have severity, and since that fold. */
  final boolean doubting;
  /** Whether a report is taken although the rest of its record cannot be read. */
  final boolean piecewise;
  /** Whether an agent's reports are ordered by their claims: where agents are doubted, since then. */
  final boolean byClaim;
  /** How long a vote lives, or NONE for ever. */
  final long lifetime;
  /** How long a silent vote is kept; NONE: silent votes are not kept. */
  final long forgetDelay;
  /** The age up to which a report is looked at, or NONE for any. */
  final long reportAgeLimit;
  /** How long a purge is remembered at least: as long as an older report is taken. */
  final long purgeMemory;
  final String mildest;
  /** Whether what commands something counts only with a signature. */
  final boolean signedCommands;
  final long electorate;
  final List<TaskRule> tasks = new ArrayList<>();
  private final boolean open;
  private final List<String> order = new ArrayList<>();
  private final Map<String, Integer> ranks = new HashMap<>();
  private final String[] names;
  private final Map<String, Long> holds;
  private final Map<String, Long> reminders;
  private final Map<String, Long> purgeAfter;
  private final Map<String, Long> weights = new HashMap<>();
  private final Map<String, Long> prefixes = new HashMap<>();
  private final List<Object> all;

  /** Reads a scenario from its JSON. Raises Bad where domain/scenario.py raises ScenarioError. */
  static Rule parse(String text) throws Bad {
    try {
      return new Rule(Json.read(text.getBytes(StandardCharsets.UTF_8)).value(), text, Set.of());
    } catch (Json.Bad error) {
      throw new Bad();
    }
  }

  /** text: what the scenario is stored as; plain: the same, read; functions: rules in Python. */
  Rule(Object plain, String text, Set<String> functions) throws Bad {
    this.text = text;
    Map<?, ?> table = table(plain);
    name = text(table, "name", null);
    check(NAME.matcher(name).matches());
    List<Object> specs = new ArrayList<>();
    for (Object entry : list(table.get("states"))) specs.add(spec(table(entry)));
    check(!order.isEmpty() && new HashSet<>(order).size() == order.size());
    open = choice(table, "vocabulary", List.of("closed", "open"), "closed").equals("open");
    for (String state : order) ranks.put(state, ranks.size());
    names = order.toArray(String[]::new);
    mildest = order.get(order.size() - 1);
    String severity =
        choice(table, "severity", List.of("order", "none"), open ? "none" : "order");
    lifeCycle = open || severity.equals("none");
    String title = text(table, "title", name.substring(0, 1).toUpperCase() + name.substring(1));
    String noun = text(table, "noun", "asset");
    Map<?, ?> rule = table(table.get("rule"));
    String kind = choice(rule, "kind", List.of("latest", "quorum", "python"), null);
    latest = kind.equals("latest");
    inPython = kind.equals("python");
    if (inPython) checkFunction(text(rule, "function", null), functions);
    ladder = kind.equals("quorum") ? ladder(rule) : List.of();
    fallback = kind.equals("quorum") ? fallback(rule) : KEEP;
    long partitions = whole(table.get("partitions"), 1, 1000, 4);
    boolean voters = table.get("min_voters") instanceof Map;
    Map<?, ?> both = voters ? table(table.get("min_voters")) : Map.of();
    minVoters = whole(voters ? both.get("lower") : table.get("min_voters"), 1, MAX_VOTERS, 1);
    raiseVoters = whole(both.get("raise"), 1, MAX_VOTERS, 1);
    long voteLifetime = duration(table.get("vote_lifetime"), 1);
    long fold = whole(table.get("fold"), 1, FOLD, 1);
    lenient = fold >= DOUBT_FOLD;
    doubting = lenient && !lifeCycle;
    piecewise = fold >= CLAIM_FOLD;
    byClaim = doubting && piecewise;
    lifetime = voteLifetime == NONE && doubting ? LONGEST_LIFE : voteLifetime;
    long forgetAfter = duration(table.get("forget_after"), 0);
    long maxReportAge = duration(table.get("max_report_age"), 1);
    forgetDelay = forgetDelay(forgetAfter);
    reportAgeLimit = reportAgeLimit(maxReportAge);
    purgeMemory = Math.max(0, doubting ? Math.max(reportAgeLimit, lifetime) : reportAgeLimit);
    electorate = whole(table.get("electorate"), 1, MAX_WEIGHT, NONE);
    holds = durations(table, "holds", 0);
    reminders = durations(table, "reminders", 1);
    purgeAfter = durations(table, "purge_after", 1);
    for (Map.Entry<?, ?> entry : entries(table, "weights").entrySet()) weigh(entry);
    signedCommands = choice(table, "commands", List.of("any", "signed"), "any").equals("signed");
    if (table.get("tasks") != null) {
      for (Object entry : list(table.get("tasks"))) tasks.add(task(table(entry)));
    }
    check(tasks.size() <= MAX_RULE_TASKS && new HashSet<>(tasks).size() == tasks.size());
    all = List.of(name, title, noun, partitions, open, specs, kind, ladder, fallback, lifeCycle,
        minVoters, raiseVoters, voteLifetime, forgetAfter, maxReportAge, electorate, holds,
        reminders, purgeAfter, weights, prefixes, fold, signedCommands, tasks);
  }

  private long forgetDelay(long forgetAfter) {
    if (lifeCycle || forgetAfter == 0) return NONE;
    return forgetAfter != NONE ? forgetAfter
        : Math.max(lifetime == NONE ? 0 : 3 * lifetime, LEAST_MEMORY);
  }

  private long reportAgeLimit(long maxReportAge) {
    if (lifetime == NONE || forgetDelay == NONE) return maxReportAge;
    return maxReportAge == NONE ? forgetDelay : Math.min(maxReportAge, forgetDelay);
  }

  private static void checkFunction(String name, Set<String> functions) throws Bad {
    check(FUNCTION.matcher(name).matches() && functions.contains(name));
  }

  // ---- what the fold asks ----

  boolean knows(String state) {
    return ranks.containsKey(state) || (open && Names.stateOk(state));
  }

  /** 0 for the worst state; one outside an open vocabulary ranks last, of a closed one first. */
  int rank(String state) {
    for (int rank = 0; rank < names.length; rank++) {
      if (names[rank] == state) return rank; // mostly the rule's own text: see `own`
    }
    Integer rank = ranks.get(state);
    return rank != null ? rank : open ? order.size() : -1;
  }

  /** The rule's own text for a state, by which `rank` finds it at once; else the text itself. */
  String own(String state) {
    Integer rank = ranks.get(state);
    return rank == null ? state : names[rank];
  }

  /** Returns the state of this rank. */
  String state(int rank) {
    return names[rank];
  }

  /** Returns how many states the vocabulary lists. */
  int states() {
    return names.length;
  }

  /** Returns how long a silent vote is kept, where one is. */
  long forgetWait() {
    return Math.max(0, forgetDelay);
  }

  long hold(String state) {
    return holds.getOrDefault(state, 0L);
  }

  long reminder(String state) {
    return reminders.getOrDefault(state, NONE);
  }

  long purgeDelay(String state) {
    return purgeAfter.getOrDefault(state, NONE);
  }

  boolean startsTask(String id) {
    for (TaskRule task : tasks) {
      if (task.id().equals(id)) return true;
    }
    return false;
  }

  /**
   * Returns why a task of its own may not run, or null where it may: with severity no state becomes
   * milder, and no row goes, by time alone.
   */
  String taskFault(TaskRule task) {
    if (!doubting) return null;
    if (task.action().equals("purge")) return "a task of the scenario may not purge";
    if (task.state() == null) return null;
    String within = task.condition() != null ? task.condition()
        : task.on() != null ? task.on() : names[0];
    if (rank(task.state()) <= rank(within)) return null;
    return "a task of the scenario may not set a milder state";
  }

  /** Returns the same of the task with this id. */
  String taskFault(String id) {
    for (TaskRule task : tasks) {
      if (task.id().equals(id)) return taskFault(task);
    }
    return null;
  }

  long weight(String agent) {
    if (weights.isEmpty() && prefixes.isEmpty() || agent.startsWith(Names.USER)) return 1;
    Long exact = weights.get(agent);
    if (exact != null) return exact;
    int longest = -1;
    long weight = 1;
    for (Map.Entry<String, Long> entry : prefixes.entrySet()) {
      String prefix = entry.getKey();
      if (prefix.length() > longest && agent.startsWith(prefix)) {
        longest = prefix.length();
        weight = entry.getValue();
      }
    }
    return weight;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Rule rule && all.equals(rule.all);
  }

  @Override
  public int hashCode() {
    return Objects.hash(all);
  }

  // ---- reading it ----

  private static void check(boolean right) throws Bad {
    if (!right) throw new Bad();
  }

  private static Map<?, ?> table(Object value) throws Bad {
    check(value instanceof Map);
    return (Map<?, ?>) value;
  }

  private static List<?> list(Object value) throws Bad {
    check(value instanceof List);
    return (List<?>) value;
  }

  private static Map<?, ?> entries(Map<?, ?> table, String key) throws Bad {
    Object value = table.get(key);
    return value == null ? Map.of() : table(value);
  }

  private static String text(Map<?, ?> table, String key, String usual) throws Bad {
    Object value = table.get(key) == null ? usual : table.get(key);
    check(value instanceof String);
    int length = Names.length((String) value);
    check(0 < length && length <= 255);
    return (String) value;
  }

  private static String choice(Map<?, ?> table, String key, List<String> choices, String usual)
      throws Bad {
    Object value = table.get(key) == null ? usual : table.get(key);
    check(value instanceof String && choices.contains(value));
    return (String) value;
  }

  private static long whole(Object value, long low, long high, long usual) throws Bad {
    if (value == null) return usual;
    check(value instanceof Long);
    long number = (Long) value;
    check(low <= number && number <= high);
    return number;
  }

  private static long duration(Object value, long low) throws Bad {
    if (!(value instanceof String)) return whole(value, low, MAX_DURATION, NONE);
    Matcher match = DURATION.matcher((String) value);
    check(match.matches());
    long millis = Long.parseLong(match.group(1)) * UNITS.get(match.group(2));
    return whole(millis, low, MAX_DURATION, NONE);
  }

  private List<String> spec(Map<?, ?> entry) throws Bad {
    String state = stateName(entry, "name");
    order.add(state);
    return List.of(state, text(entry, "label", state), choice(entry, "colour", COLOURS, "grey"),
        choice(entry, "icon", ICONS, "ring"));
  }

  private static String stateName(Map<?, ?> table, String key) throws Bad {
    String state = text(table, key, null);
    check(Names.stateOk(state) && !state.equals(KEEP));
    return state;
  }

  private void checkKnown(Object state) throws Bad {
    check(open || ranks.containsKey(state));
  }

  private String fallback(Map<?, ?> rule) throws Bad {
    String state = text(rule, "default", KEEP);
    if (!state.equals(KEEP)) checkKnown(state);
    return state;
  }

  private List<Threshold> ladder(Map<?, ?> rule) throws Bad {
    List<Threshold> thresholds = new ArrayList<>();
    for (Object entry : list(rule.get("ladder"))) thresholds.add(threshold(table(entry)));
    check(!thresholds.isEmpty());
    thresholds.sort(Comparator.comparingInt(threshold -> rank(threshold.state())));
    return thresholds;
  }

  private Threshold threshold(Map<?, ?> entry) throws Bad {
    String state = stateName(entry, "state");
    checkKnown(state);
    Object atLeast = entry.get("at_least");
    Object moreThan = entry.get("more_than");
    check((atLeast == null) != (moreThan == null));
    if (moreThan != null) return fraction(state, moreThan, 0);
    if (!(atLeast instanceof Long)) return fraction(state, atLeast, 1);
    return new Threshold(state, whole(atLeast, 1, MAX_WEIGHT, NONE), 0, false);
  }

  private static Threshold fraction(String state, Object value, long low) throws Bad {
    check(value instanceof String);
    Matcher match = FRACTION.matcher((String) value);
    check(match.matches());
    long p = Long.parseLong(match.group(1));
    long q = Long.parseLong(match.group(2));
    check(q != 0 && low <= p && p <= q - (1 - low));
    return new Threshold(state, p, q, low == 0);
  }

  private Map<String, Long> durations(Map<?, ?> table, String key, long low) throws Bad {
    Map<String, Long> durations = new HashMap<>();
    for (Map.Entry<?, ?> entry : entries(table, key).entrySet()) {
      checkKnown(entry.getKey());
      check(entry.getValue() != null);
      durations.put((String) entry.getKey(), duration(entry.getValue(), low));
    }
    return durations;
  }

  private TaskRule task(Map<?, ?> entry) throws Bad {
    TaskRule task = TaskRule.of(choice(entry, "do", ACTIONS, null), stateOf(entry, "on"),
        stateOf(entry, "on_report"), stateOf(entry, "state"), stateOf(entry, "if"),
        duration(entry.get("after"), LEAST_PERIOD), duration(entry.get("every"), LEAST_PERIOD),
        whole(entry.get("times"), 1, MAX_RUNS, NONE));
    check((task.on() == null) != (task.onReport() == null));
    check(task.after() != NONE || task.every() != NONE);
    check(task.action().equals("set") == (task.state() != null));
    check(task.every() != NONE || task.times() == NONE);
    check(task.every() == NONE || task.times() != NONE || task.within() != null);
    return task;
  }

  private String stateOf(Map<?, ?> entry, String key) throws Bad {
    if (entry.get(key) == null) return null;
    String state = stateName(entry, key);
    checkKnown(state);
    return state;
  }

  private void weigh(Map.Entry<?, ?> entry) throws Bad {
    String agent = (String) entry.getKey();
    check(entry.getValue() != null);
    long weight = whole(entry.getValue(), 0, MAX_WEIGHT, NONE);
    if (agent.endsWith("*")) prefixes.put(agent.substring(0, agent.length() - 1), weight);
    else weights.put(agent, weight);
  }
}
