package tallyboard.kernel;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * What the fold remembers of one asset, and its timers: domain/asset.py. Times in ms of the
 * bucket's clock. Votes, doubts, waits, override and answers are replaced, never changed, so that
 * what was there before an event can be kept by reference.
 */
final class Asset {
  /** Who muted a vote's agent, and until when, NONE: until taken back. */
  record Muted(long until, String user) {
    /** Returns when it ends, or the end of time. */
    long end() {
      return until == NONE ? Long.MAX_VALUE : until;
    }
  }

  /** The last time at which a vote turned worse; again: the second time within a lifetime. */
  record Flap(String state, long time, long until, boolean again) {
    Flap lasting(long until) {
      return new Flap(state, time, until, again);
    }
  }

  /** What an agent stands for: its vote, or the doubt about it. */
  interface Voice {
    String agent();

    Muted muted();

    long weight();

    /** Returns whether it counts: its agent is not muted, and weighs something. */
    default boolean counts() {
      return weight() > 0 && muted() == null;
    }
  }

  /** Why an agent is doubted, whatever its vote says. said: null where nobody can read it. */
  record Doubt(String agent, String reason, String said, long time, long offset, long until,
      long weight, Muted muted) implements Voice {
    /** Returns whether readers see the same of both. */
    boolean shownAs(Doubt other) {
      return weight == other.weight && agent.equals(other.agent) && reason.equals(other.reason)
          && Objects.equals(said, other.said) && Objects.equals(muted, other.muted);
    }

    Doubt saying(String said, String reason) {
      return new Doubt(agent, reason, said, time, offset, until, weight, muted);
    }

    Doubt lasting(long until, long weight) {
      return new Doubt(agent, reason, said, time, offset, until, weight, muted);
    }

    Doubt marked(Muted mark, long weight) {
      return new Doubt(agent, reason, said, time, offset, until, weight, mark);
    }
  }

  /**
   * Muted: null for a vote that counts; silent: since when, NONE for a live vote; doubt: why it is
   * in doubt by its own report, or null; detailFault: why its detail was left out, or null; claimed:
   * its agent's own time, however far ahead, or else the append time.
   */
  record Vote(String agent, String state, long reportedAt, long time, long offset, long expires,
      long weight, String detail, Muted muted, long silent, long order, long age, String doubt,
      String detailFault, Flap flap, long claimed) implements Voice {
    /** Returns the claim that counts: of a silent vote at most the time at which it expired. */
    long claim() {
      return silent == NONE || expires == NONE ? claimed : Math.min(claimed, expires);
    }

    boolean live() {
      return silent == NONE && weight > 0 && muted == null;
    }

    /** Returns how it turned worse, where that was twice within a lifetime; or null. */
    Flap flapping() {
      return flap != null && flap.again ? flap : null;
    }

    /** Returns whether readers see the same of both. */
    boolean shownAs(Vote other) {
      return weight == other.weight && silent == other.silent && state.equals(other.state)
          && agent.equals(other.agent) && Objects.equals(muted, other.muted)
          && Objects.equals(doubt, other.doubt) && Objects.equals(detailFault, other.detailFault)
          && (flap == other.flap || Objects.equals(turned(), other.turned()));
    }

    /** Returns what it said as it turned worse, where that was twice in a lifetime; or null. */
    private String turned() {
      return flapping() == null ? null : flap.state;
    }

    Vote marked(Muted mark, long weight) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, mark, silent,
          order, age, doubt, detailFault, flap, claimed);
    }

    Vote weighing(long weight) {
      return marked(muted, weight);
    }

    /** A silent vote counts as one in doubt does, so its own doubt ends. */
    Vote fallenSilent(long since) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted, since,
          order, age, null, detailFault, flap, claimed);
    }

    Vote expiring(long expires) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age, doubt, detailFault, flap, claimed);
    }

    Vote inDoubt(String doubt) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age, doubt, detailFault, flap, claimed);
    }

    Vote flapped(Flap flap) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age, doubt, detailFault, flap, claimed);
    }

    Vote claiming(long claimed) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age, doubt, detailFault, flap, claimed);
    }

    /** Returns it as one of this age, that ends with a former one. */
    Vote ending(long age, Vote former) {
      long since = former.silent == NONE ? NONE : former.expires;
      return new Vote(agent, state, reportedAt, time, offset, former.expires, weight, detail, muted,
          since, order, age, doubt, detailFault, flap, claimed);
    }

    /** Returns it as it is under a rule that knows no doubt. */
    Vote trusted() {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, muted,
          silent, order, age, null, detailFault, null, claimed);
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

  static final int OVERRIDE_END = 0, VOTE_EXPIRY = 1, DOUBT_END = 2, VOTE_FORGOTTEN = 3,
      MUTE_END = 4, HOLD = 5, SCHEDULE = 6, REMINDER = 7, PURGE_AFTER = 8, FORGET = 9;
  static final List<String> TIMER_TYPES = List.of("override-end", "vote-expiry", "doubt-end",
      "vote-forgotten", "mute-end", "hold", "schedule", "reminder", "purge-after", "forget");
  static final String UNKNOWN = "unknown";
  static final long NONE = Rule.NONE;
  private static final int ANSWERS_KEPT = 16;
  /** Votes that are looked through one by one. */
  private static final int FEW = 8;
  private static final long LEAST_TRACE = 3_600_000;
  private static final Vote[] NO_VOTES = {};
  static final Doubt[] NO_DOUBTS = {};
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
  /** In the order of their agents. */
  Doubt[] doubts = NO_DOUBTS;
  /**
   * Since when the tallied state is the mildest with nothing against it: no dispute, doubt or
   * override; NONE while it is not.
   */
  long settled = NONE;
  /** When the timer index looks at this asset again: when its next timer fires, or before. */
  long noted = NONE;

  // ---- votes and doubts, in the order of their agents ----

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

  Doubt doubt(String agent) {
    return doubts.length == 0 ? null : found(agent);
  }

  private Doubt found(String agent) {
    int low = 0;
    for (int high = doubts.length; low < high;) {
      int middle = (low + high) / 2;
      int order = Names.compare(doubts[middle].agent, agent);
      if (order == 0) return doubts[middle];
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return null;
  }

  /** Returns an agent's vote, or else the doubt about it, or null. */
  Voice voice(String agent) {
    Vote vote = vote(agent);
    return vote != null ? vote : doubt(agent);
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

  void put(Doubt doubt) {
    Stream<Doubt> others = Arrays.stream(doubts).filter(each -> !each.agent.equals(doubt.agent));
    doubts = Stream.concat(others, Stream.of(doubt))
        .sorted((one, other) -> Names.compare(one.agent, other.agent)).toArray(Doubt[]::new);
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
    trace.forgetAt = at + Math.max(LEAST_TRACE, rule.purgeMemory);
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
    doubts = NO_DOUBTS;
    tasks = NO_TASKS;
    settled = NONE;
    purgedAt = at;
  }

  /** Purges an asset that nothing ever tallied, once the last that was said of it is gone. */
  void dropUnknown(long at) {
    if (state == null && override == null && votes.length == 0 && !isDoubted()) clear(at);
  }

  /** Notes since when nothing speaks against the mildest state, as of `at`. */
  void settle(Rule rule, long at) {
    boolean mild = override == null && disputed == null && rule.mildest.equals(state);
    if (!(rule.doubting && mild) || isInDoubt()) settled = NONE;
    else if (settled == NONE) settled = at;
  }

  /** Returns whether a vote that counts is in doubt, or an agent that does is doubted. */
  private boolean isInDoubt() {
    for (Vote vote : votes) {
      if (vote.doubt != null && vote.counts()) return true;
    }
    return isDoubted();
  }

  private boolean isDoubted() {
    for (Doubt doubt : doubts) {
      if (doubt.counts()) return true;
    }
    return false;
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
    long purge = purgeTime(rule);
    return purge == NONE ? first : earlier(first, new Timer(purge, PURGE_AFTER));
  }

  /** Returns when an asset that exists purges itself, or NONE where it does not. */
  private long purgeTime(Rule rule) {
    long delay = rule.purgeDelay(shown);
    if (delay == NONE) return NONE;
    long due = since + delay;
    if (rule.doubting) return settled == NONE ? NONE : Math.max(due, settled);
    if (rule.lenient) return due;
    // A dispute that held it up has ended with the last record emitted, at the latest.
    return disputed != null ? NONE : Math.max(due, emittedAt);
  }

  private Timer firstOfVotes(Rule rule) {
    long expiry = Long.MAX_VALUE;
    long forgotten = Long.MAX_VALUE;
    long doubted = Long.MAX_VALUE;
    long unmuted = Long.MAX_VALUE;
    for (Vote vote : votes) {
      if (vote.silent != NONE) forgotten = Math.min(forgotten, vote.silent + rule.forgetWait());
      else if (vote.expires != NONE) expiry = Math.min(expiry, vote.expires);
      if (vote.flap != null && vote.flap.again) doubted = Math.min(doubted, vote.flap.until);
      if (vote.muted != null) unmuted = Math.min(unmuted, vote.muted.end());
    }
    for (Doubt doubt : doubts) {
      doubted = Math.min(doubted, doubt.until);
      if (doubt.muted != null) unmuted = Math.min(unmuted, doubt.muted.end());
    }
    Timer first = earlier(earlier(null, expiry, VOTE_EXPIRY), doubted, DOUBT_END);
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
      String disputed, Vote[] votes, Task[] tasks, Doubt[] doubts) {
    boolean differs(Asset asset, Rule rule) {
      return !Objects.equals(shown, asset.shown) || !Objects.equals(override, asset.override)
          || !Objects.equals(unconfirmed, asset.unconfirmed)
          || !Objects.equals(disputed, asset.disputed)
          || !Objects.equals(pending, asset.pending(rule)) || votesDiffer(asset.votes)
          || tasks != asset.tasks && !Arrays.equals(tasks, asset.tasks)
          || doubtsDiffer(asset.doubts);
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

    private boolean doubtsDiffer(Doubt[] now) {
      if (doubts == now) return false;
      if (doubts.length != now.length) return true;
      for (int i = 0; i < now.length; i++) {
        if (doubts[i] != now[i] && !doubts[i].shownAs(now[i])) return true;
      }
      return false;
    }
  }

  View view(Rule rule) {
    return new View(shown, pending(rule), override, unconfirmed, disputed, votes, tasks, doubts);
  }
}
