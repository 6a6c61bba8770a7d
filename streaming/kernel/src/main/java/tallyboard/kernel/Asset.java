package tallyboard.kernel;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * What the fold remembers of one asset, and its timers: domain/asset.py. Times in ms of the
 * bucket's clock. Votes, waits, override and answers are replaced, never changed, so that what was
 * there before an event can be kept by reference.
 */
final class Asset {
  /** Who muted a vote's agent, and until when, NONE: until taken back. */
  record Muted(long until, String user) {}

  /** Muted: null for a vote that counts; silent: since when, NONE for a live vote. */
  record Vote(String agent, String state, long reportedAt, long time, long offset, long expires,
      long weight, String detail, Muted muted, long silent, long order, long age) {
    /** Returns whether it counts, live or silent. */
    boolean counts() {
      return weight > 0 && muted == null;
    }

    boolean live() {
      return silent == NONE && weight > 0 && muted == null;
    }

    /** Returns how much it counts: nothing, as a silent one, or as a live one. */
    int precedence() {
      return !counts() ? 0 : silent != NONE ? 1 : 2;
    }

    /** Returns whether readers see the same of both. */
    boolean shownAs(Vote other) {
      return weight == other.weight && silent == other.silent && state.equals(other.state)
          && agent.equals(other.agent) && Objects.equals(muted, other.muted);
    }

    Vote marked(Muted mark, long weight) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, mark, silent,
          order, age);
    }

    Vote weighing(long weight) {
      return marked(muted, weight);
    }

    Vote fallenSilent(long since) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted, since,
          order, age);
    }

    Vote expiring(long expires) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age);
    }
  }

  /** A wait for a state, begun at `since`. */
  record Wait(String state, long since) {}

  record Pending(String state, long since, long due) {}

  record Override(String state, long until, String user, String reason, String command, long since,
      String underlying) {
    Override over(String state) {
      return new Override(this.state, until, user, reason, command, since, state);
    }

    boolean samePin(Override other) {
      return until == other.until && state.equals(other.state) && user.equals(other.user)
          && reason.equals(other.reason);
    }
  }

  /**
   * A task: what is to be done, when, and how it went last. due: NONE after the last run; every,
   * until, times, ran: NONE where there is none.
   */
  record Task(String id, String action, String user, String reason, long due, String state,
      String condition, long every, long until, long times, String within, String outcome,
      long ran, String aside) {
    /** Returns whether it will run under the rule in force. */
    boolean runs() {
      return due != NONE && aside == null;
    }

    Task setAside(String why) {
      return new Task(id, action, user, reason, due, state, condition, every, until, times, within,
          outcome, ran, why);
    }

    Task after(long due, long times, String outcome, long ran) {
      return new Task(id, action, user, reason, due, state, condition, every, until, times, within,
          outcome, ran, aside);
    }
  }

  /** A command that was answered: how, with which cause, in whose name. */
  record Answer(String command, String outcome, String cause, String user) {}

  /** A timer of an asset: when it fires, and of which kind it is. */
  record Timer(long time, int order) implements Comparable<Timer> {
    @java.lang.Override
    public int compareTo(Timer other) {
      return time != other.time ? Long.compare(time, other.time) : order - other.order;
    }
  }

  static final int OVERRIDE_END = 0, VOTE_EXPIRY = 1, VOTE_FORGOTTEN = 2, MUTE_END = 3, HOLD = 4,
      SCHEDULE = 5, REMINDER = 6, PURGE_AFTER = 7, FORGET = 8;
  static final List<String> TIMER_TYPES = List.of("override-end", "vote-expiry", "vote-forgotten",
      "mute-end", "hold", "schedule", "reminder", "purge-after", "forget");
  static final String UNKNOWN = "unknown";
  static final long NONE = Rule.NONE;
  private static final int ANSWERS_KEPT = 16;
  /** Votes that are looked through one by one. */
  private static final int FEW = 8;
  private static final long LEAST_TRACE = 3_600_000;
  private static final Vote[] NO_VOTES = {};
  static final Wait[] NO_WAITS = {};
  private static final Answer[] NO_ANSWERS = {};
  static final Task[] NO_TASKS = {};

  String state;
  String shown;
  String previous;
  long since;
  /** Why, in words; or null. */
  String unconfirmed;
  String disputed;
  Vote[] votes = NO_VOTES;
  /** In the order of their states' names. */
  Wait[] waits = NO_WAITS;
  Override override;
  long offset = -1;
  long step;
  long changedOffset = -1;
  long changedStep;
  long reminded;
  long emittedAt;
  Answer[] answers = NO_ANSWERS;
  long forgetAt = NONE;
  long purgedAt = NONE;
  /** In the order of their ids, none that is over. */
  Task[] tasks = NO_TASKS;
  /** When the timer index looks at this asset again: when its next timer fires, or before. */
  long noted = NONE;

  // ---- votes, in the order of their agents ----

  private int place(String agent) {
    int low = 0;
    int high = votes.length;
    while (low < high) {
      int middle = (low + high) / 2;
      if (Names.compare(votes[middle].agent, agent) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  Vote vote(String agent) {
    for (int i = 0; i < Math.min(votes.length, FEW); i++) {
      if (votes[i].agent == agent) return votes[i]; // the same object, mostly: see Texts
    }
    int place = place(agent);
    return place < votes.length && votes[place].agent.equals(agent) ? votes[place] : null;
  }

  void put(Vote vote) {
    int place = place(vote.agent);
    boolean there = place < votes.length && votes[place].agent.equals(vote.agent);
    Vote[] grown = new Vote[there ? votes.length : votes.length + 1];
    System.arraycopy(votes, 0, grown, 0, place);
    System.arraycopy(votes, there ? place + 1 : place, grown, place + 1, grown.length - place - 1);
    grown[place] = vote;
    votes = grown;
  }

  /** Takes out an agent's vote; returns whether there was one. */
  boolean withdraw(String agent) {
    Vote[] remaining = Arrays.stream(votes).filter(v -> !v.agent.equals(agent)).toArray(Vote[]::new);
    boolean removed = remaining.length < votes.length;
    votes = remaining;
    return removed;
  }

  // ---- answers ----

  Answer answered(String command) {
    for (Answer answer : answers) {
      if (answer.command.equals(command)) return answer;
    }
    return null;
  }

  void remember(Answer answer) {
    if (answered(answer.command) != null) return;
    int kept = Math.min(answers.length, ANSWERS_KEPT - 1);
    Answer[] newest = Arrays.copyOfRange(answers, answers.length - kept, answers.length + 1);
    newest[kept] = answer;
    answers = newest;
  }

  /** Returns what is left when it goes at `at`: answers, place, when it was purged. */
  Asset trace(long at, Rule rule) {
    Asset trace = new Asset();
    trace.offset = trace.changedOffset = offset;
    trace.step = trace.changedStep = step;
    trace.answers = answers;
    trace.forgetAt = at + Math.max(LEAST_TRACE, rule.reportAgeLimit);
    trace.purgedAt = purgedAt;
    trace.noted = noted;
    return trace;
  }

  /** Forgets the state; reports older than `at` do not bring it back. */
  void clear(long at) {
    state = shown = unconfirmed = disputed = null;
    override = null;
    votes = NO_VOTES;
    waits = NO_WAITS;
    tasks = NO_TASKS;
    purgedAt = at;
  }

  /** Purges an asset that nothing ever tallied, once the last that was said of it is gone. */
  void dropUnknown(long at) {
    if (state == null && override == null && votes.length == 0) clear(at);
  }

  /** Returns the override, else the state; one that nothing has tallied is unknown. */
  String toShow() {
    if (override != null) return override.state;
    if (state != null) return state;
    return shown != null || votes.length > 0 ? UNKNOWN : null;
  }

  // ---- waits ----

  /** Of all waits the one that ends first: of several the worst, else the mildest; or null. */
  Pending pending(Rule rule) {
    if (waits.length == 0) return null;
    int here = rule.rank(state);
    Pending first = null;
    int place = 0;
    for (Wait wait : waits) {
      int rank = rule.rank(wait.state);
      if (rank >= here) rank = -rank;
      long due = wait.since + rule.hold(wait.state);
      if (first != null && (due > first.due || due == first.due && rank >= place)) continue;
      first = new Pending(wait.state, wait.since, due);
      place = rank;
    }
    return first;
  }

  /** Returns whether a wait for a milder state runs. */
  boolean falling(Rule rule) {
    for (Wait wait : waits) {
      if (rule.rank(wait.state) > rule.rank(state)) return true;
    }
    return false;
  }

  // ---- timers ----

  /** Returns the timer that fires first, or null. */
  Timer nextTimer(Rule rule) {
    if (shown == null) return forgetAt == NONE ? null : new Timer(forgetAt, FORGET);
    Timer first = nextOther(rule);
    for (Task task : tasks) {
      if (task.runs()) first = earlier(first, new Timer(task.due, SCHEDULE));
    }
    long every = rule.reminder(shown);
    return every == NONE ? first : earlier(first, new Timer(reminded + every, REMINDER));
  }

  /** Returns, of an asset that exists, what fires first beside tasks and the reminder; or null. */
  Timer nextOther(Rule rule) {
    Timer first = firstOfVotes(rule);
    if (override != null && override.until != NONE) {
      first = earlier(first, new Timer(override.until, OVERRIDE_END));
    }
    Pending pending = pending(rule);
    if (pending != null) first = earlier(first, new Timer(pending.due, HOLD));
    long delay = rule.purgeDelay(shown);
    if (delay == NONE || disputed != null) return first;
    // A dispute that held it up has ended with the last record emitted, at the latest.
    return earlier(first, new Timer(Math.max(since + delay, emittedAt), PURGE_AFTER));
  }

  private Timer firstOfVotes(Rule rule) {
    long expiry = Long.MAX_VALUE;
    long forgotten = Long.MAX_VALUE;
    long unmuted = Long.MAX_VALUE;
    for (Vote vote : votes) {
      if (vote.silent != NONE) forgotten = Math.min(forgotten, vote.silent + rule.forgetWait());
      else if (vote.expires != NONE) expiry = Math.min(expiry, vote.expires);
      if (vote.muted != null && vote.muted.until != NONE) {
        unmuted = Math.min(unmuted, vote.muted.until);
      }
    }
    Timer first = earlier(null, expiry, VOTE_EXPIRY);
    return earlier(earlier(first, forgotten, VOTE_FORGOTTEN), unmuted, MUTE_END);
  }

  private static Timer earlier(Timer first, long time, int order) {
    return time == Long.MAX_VALUE ? first : earlier(first, new Timer(time, order));
  }

  private static Timer earlier(Timer one, Timer other) {
    return one == null || other.compareTo(one) < 0 ? other : one;
  }

  // ---- before and after an event ----

  /** What readers see of an asset, kept to be compared. */
  record View(String shown, Pending pending, Override override, String unconfirmed,
      String disputed, Vote[] votes, Task[] tasks) {
    boolean differs(Asset asset, Rule rule) {
      return !Objects.equals(shown, asset.shown) || !Objects.equals(override, asset.override)
          || !Objects.equals(unconfirmed, asset.unconfirmed)
          || !Objects.equals(disputed, asset.disputed)
          || !Objects.equals(pending, asset.pending(rule)) || votesDiffer(asset.votes)
          || tasks != asset.tasks && !Arrays.equals(tasks, asset.tasks);
    }

    /** Whether what a command's sender looks at is the same: state, pin, else what waits. */
    boolean lookedAt(Asset asset, Rule rule) {
      if (!Objects.equals(shown, asset.shown)) return false;
      if (override != null && asset.override != null) {
        return override.over(asset.override.underlying).equals(asset.override);
      }
      if (override != asset.override) return false;
      Pending now = asset.pending(rule);
      return pending == null || now == null ? pending == now : pending.state.equals(now.state);
    }

    private boolean votesDiffer(Vote[] now) {
      if (votes == now) return false;
      if (votes.length != now.length) return true;
      for (int i = 0; i < now.length; i++) {
        if (votes[i] != now[i] && !votes[i].shownAs(now[i])) return true;
      }
      return false;
    }
  }

  View view(Rule rule) {
    return new View(shown, pending(rule), override, unconfirmed, disputed, votes, tasks);
  }
}
