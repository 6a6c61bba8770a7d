package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import tallyboard.kernel.Asset.Answer;
import tallyboard.kernel.Asset.Due;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.View;
import tallyboard.kernel.Asset.Vote;
import tallyboard.kernel.Asset.Wait;

/**
 * All assets of one source partition, and the fold over its log. domain/fold.py is the
 * specification: the methods here bear its names and stand in its order.
 */
final class Bucket {
  /** Where the assets of a bucket are kept, and which of them have something due. */
  interface Store {
    Asset get(String name);

    void put(String name, Asset asset);

    void remove(String name);

    Iterator<String> names();

    /** From now on the asset, which is kept, has something due at `due`, or nothing. */
    void due(String name, Asset asset, Due due);

    /** Takes out an asset that may have something due at or before `upto` ms, in order; or null. */
    String popDue(long upto);
  }

  /** From here on the log needs the Python engine: streaming/engine_assignment.py hands the scenario over. */
  static final class NeedsPython extends RuntimeException {
    NeedsPython(String scenario) {
      super("NeedsPython: " + scenario);
    }
  }

  /** The log needs a version of the fold that is not known here. */
  static final class UnknownFoldVersion extends RuntimeException {
    UnknownFoldVersion(String scenario, long fold) {
      super("UnknownFoldVersion: the log of " + scenario + " needs version " + fold
          + " of the fold, and this release knows " + Rule.FOLD + ": run a newer release");
    }
  }

  /** Whether what happened is evidence, by which a worse or a milder state may come. */
  enum Evidence {
    SILENCE(false, false), UP(true, false), BOTH(true, true);

    final boolean up;
    final boolean down;

    Evidence(boolean up, boolean down) {
      this.up = up;
      this.down = down;
    }
  }

  /** What brought a record about. */
  record Cause(String type, int partition, long offset, long time, String agent, String user,
      String command) {
    Cause at(long time) {
      return new Cause(type, partition, offset, time, agent, user, command);
    }
  }

  /** What the fold emits. */
  interface Out {
    /** The asset's record, a tombstone if it is not shown any more. */
    void state(String name, Asset asset, Cause cause, Answer answer);

    void dead(String reason);
  }

  private static final int MAX_VOTERS = 200;
  private static final long REFRESH_AFTER = 30_000;
  private static final String APPLIED = "applied";
  private static final String NO_CHANGE = "no-change";
  private static final String REFUSED = "refused: ";
  private static final long NONE = Rule.NONE;

  final int partition;
  final Store store;
  final Mutes mutes = new Mutes();
  final Lateness lateness = new Lateness();
  private final Out out;
  Rule rule;
  long clock;
  long offset = -1;
  long live;
  /** The append time of the record at hand. */
  private long time;
  /** The assets that a change of rule or a mute has still to go through, and what brought it. */
  private Iterator<String> waiting = Collections.emptyIterator();
  private Cause change;
  /** The rule before the change. */
  private Rule former;

  Bucket(Rule rule, int partition, Store store, Out out) {
    this.rule = rule;
    this.partition = partition;
    this.store = store;
    this.out = out;
  }

  /**
   * Comes to the record at `offset`, appended at `time` ms. Call `goOn` until all is done that is due
   * by then, then `apply`, and again `goOn`: a change of rule and a mute leave the assets waiting.
   * So what leaves a bucket at one time is never more than one asset's.
   */
  void moveTo(long offset, long time) {
    this.time = time;
    clock = Math.max(clock, time);
    this.offset = offset;
  }

  /** Whether assets are still to be put under a change. */
  boolean changes() {
    return waiting.hasNext();
  }

  /** Does one thing that is due, or puts one asset under a change; false when nothing is left. */
  boolean goOn() {
    if (!waiting.hasNext()) return passTime();
    putUnder(waiting.next());
    return true;
  }

  void apply(Source.Entry entry) {
    if (!mutes.isEmpty()) mutes.dropEnded(clock);
    if (entry instanceof Source.Unsigned unsigned) takeUnsigned(unsigned);
    else dispatch(entry);
  }

  /** Applies what bears no signature, unless the rule in force demands one; nothing is answered. */
  private void takeUnsigned(Source.Unsigned unsigned) {
    if (rule.signedCommands) out.dead("unsigned");
    else dispatch(unsigned.entry());
  }

  private void dispatch(Source.Entry entry) {
    if (entry instanceof Source.Report report) report(report);
    else if (entry instanceof Source.Leave leave) leave(leave);
    else if (entry instanceof Source.Command command) command(command);
    else if (entry instanceof Source.Change changed) switchTo(changed.rule());
    else if (entry instanceof Source.UnknownFold unknown) stop(unknown);
    else if (entry instanceof Source.Mute muted) mute(muted.mute());
    else if (entry instanceof Source.Unmute unmute) unmute(unmute);
    else if (entry instanceof Source.Refusal refusal) refuse(refusal);
    else if (entry instanceof Source.Unreadable unreadable) out.dead(unreadable.reason());
  }

  // ---- reports ----

  private void report(Source.Report report) {
    if (!rule.knows(report.state())) {
      out.dead("unknown-state");
      return;
    }
    Vote vote = voteOf(report.agent(), report.state(), report.reportedAt(), report.detail());
    Asset asset = store.get(report.asset());
    if (report.reportedAt() != NONE && isLate(asset, vote)) return;
    if (!vote.counts() && (asset == null || asset.shown == null)) return;
    if (asset == null) asset = new Asset();
    if (!makeRoom(asset, vote)) {
      out.dead("too-many-agents");
      return;
    }
    View before = begin(asset);
    vote(asset, vote);
    finish(report.asset(), asset, before, cause("report", report.agent(), null, null), clock, null,
        false);
  }

  private Vote voteOf(String agent, String state, long reportedAt, String detail) {
    long age = reportedAt == NONE ? 0 : Math.max(0, time - reportedAt);
    long lifetime = rule.voteLifetime;
    long expires = lifetime == NONE ? NONE : clock + lifetime - age;
    long silent = lifetime != NONE && age >= lifetime ? expires : NONE;
    return new Vote(agent, rule.own(state), reportedAt == NONE ? clock : reportedAt, clock, offset, expires,
        weight(agent), detail, mutes.mark(agent), silent, order(reportedAt), age);
  }

  /** Where an agent's report stands in time: an agent's clock makes nothing later. */
  private long order(long reportedAt) {
    return reportedAt == NONE ? time : Math.min(reportedAt, time);
  }

  /** Whether a report comes too late to be looked at; late ones are counted. */
  private boolean isLate(Asset asset, Vote vote) {
    boolean tooOld = rule.reportAgeLimit != NONE && vote.age() > rule.reportAgeLimit;
    if (tooOld || vote.silent() != NONE && !isKept(vote)) {
      lateness.stale(vote.agent(), vote.age());
      return true;
    }
    if (asset != null && isOlder(asset, vote.agent(), vote.order())) {
      lateness.late(vote.agent());
      return true;
    }
    if (vote.silent() != NONE) lateness.silent(vote.agent(), vote.age());
    return false;
  }

  /**
   * Whether a record of this agent's is older than its newest, or than the asset's purge; a purge
   * that lies ahead of the record is of a clock that was ahead, and says nothing.
   */
  private boolean isOlder(Asset asset, String agent, long order) {
    Vote newest = asset.vote(agent);
    return newest != null && order < newest.order()
        || asset.purgedAt != NONE && order < asset.purgedAt && asset.purgedAt <= time;
  }

  /** Sees that there is a place for a newcomer's vote; returns whether there is. */
  private boolean makeRoom(Asset asset, Vote vote) {
    if (asset.votes.length < MAX_VOTERS || asset.vote(vote.agent()) != null) return true;
    Vote leastNeeded = leastNeeded(asset, vote);
    if (leastNeeded == null) return false;
    asset.withdraw(leastNeeded.agent());
    return true;
  }

  /** The vote that makes way; never one worse than the newcomer's. */
  private Vote leastNeeded(Asset asset, Vote newcomer) {
    if (rule.lifeCycle) return null;
    int least = rule.rank(newcomer.state());
    Vote found = null;
    for (Vote vote : asset.votes) {
      boolean givesWay = vote.standing() <= newcomer.standing()
          && (!vote.counts() || rule.rank(vote.state()) >= least);
      if (givesWay && (found == null || goesBefore(vote, found))) found = vote;
    }
    return found;
  }

  private boolean goesBefore(Vote one, Vote other) {
    if (one.standing() != other.standing()) return one.standing() < other.standing();
    int rank = rule.rank(one.state());
    int others = rule.rank(other.state());
    if (rank != others) return rank > others;
    if (one.order() != other.order()) return one.order() < other.order();
    return one.offset() < other.offset();
  }

  private void vote(Asset asset, Vote vote) {
    Vote before = asset.vote(vote.agent());
    if (before != null && before.silent() != NONE && vote.live()) lateness.rare(vote.agent());
    asset.put(vote);
    if (!vote.counts()) return;
    boolean milder = asset.state != null && rule.rank(vote.state()) > rule.rank(asset.state);
    judge(asset, clock, !vote.live() ? Evidence.SILENCE : milder ? Evidence.BOTH : Evidence.UP);
  }

  private void leave(Source.Leave leave) {
    Asset asset = store.get(leave.asset());
    if (asset == null || asset.vote(leave.agent()) == null) return;
    long at = leave.reportedAt();
    if (at != NONE && isOlder(asset, leave.agent(), order(at))) {
      lateness.late(leave.agent());
      return;
    }
    View before = begin(asset);
    asset.withdraw(leave.agent());
    judge(asset, clock, Evidence.SILENCE);
    dropUnknown(asset, time);
    finish(leave.asset(), asset, before, cause("leave", leave.agent(), null, null), clock, null,
        false);
  }

  // ---- commands ----

  private void command(Source.Command command) {
    Asset asset = getOrNew(command.asset());
    View before = begin(asset);
    Answer answer = asset.answered(command.id());
    if (answer == null) {
      String outcome = refusal(command, asset);
      if (outcome == null) outcome = carryOut(command, asset);
      String cause = outcome.startsWith(REFUSED) ? "refused" : command.kind();
      answer = new Answer(command.id(), outcome, cause, command.user());
    }
    answer(command.asset(), asset, before, answer);
  }

  private void refuse(Source.Refusal refusal) {
    Asset asset = getOrNew(refusal.asset());
    View before = begin(asset);
    Answer answer = asset.answered(refusal.id());
    if (answer == null) {
      answer = new Answer(refusal.id(), REFUSED + refusal.reason(), "refused", refusal.user());
    }
    answer(refusal.asset(), asset, before, answer);
  }

  private Asset getOrNew(String name) {
    Asset asset = store.get(name);
    return asset == null ? new Asset() : asset;
  }

  /** Answers a command; one that comes again is answered as it was the first time. */
  private void answer(String name, Asset asset, View before, Answer answer) {
    asset.remember(answer);
    Cause cause = cause(answer.cause(), null, answer.user(), answer.command());
    finish(name, asset, before, cause, clock, answer, false);
  }

  private String refusal(Source.Command command, Asset asset) {
    String kind = command.kind();
    if (command.ifVersion() != null) {
      if (asset.shown == null) return REFUSED + "no such asset any more";
      if (movedOn(asset, command.ifVersion())) return REFUSED + "the state has moved on";
    }
    boolean claims = kind.equals("set") || kind.equals("vote");
    if (claims && !rule.knows(command.state())) return REFUSED + "unknown state";
    if (kind.equals("set") && command.until() != NONE && command.until() <= clock) {
      return REFUSED + "the end is in the past";
    }
    if (kind.equals("vote") && !makeRoom(asset, operatorsVote(command))) {
      return REFUSED + "too many agents";
    }
    return null;
  }

  private static boolean movedOn(Asset asset, long[] seen) {
    if (asset.changedOffset != seen[1]) return asset.changedOffset > seen[1];
    return asset.changedStep > seen[2];
  }

  private String carryOut(Source.Command command, Asset asset) {
    switch (command.kind()) {
      case "set":
        return set(command, asset);
      case "vote":
        vote(asset, operatorsVote(command));
        return APPLIED;
      case "release":
        return release(command, asset);
      default:
        return purge(asset);
    }
  }

  private Vote operatorsVote(Source.Command command) {
    return voteOf(Names.USER + command.user(), command.state(), NONE, null);
  }

  private String set(Source.Command command, Asset asset) {
    Override pinned = new Override(command.state(), command.until(), command.user(),
        command.reason(), command.id(), clock, null);
    if (asset.override != null && asset.override.samePin(pinned)) return NO_CHANGE;
    asset.override = pinned;
    return APPLIED;
  }

  private String release(Source.Command command, Asset asset) {
    boolean voted = asset.withdraw(Names.USER + command.user());
    if (asset.override == null && !voted) return NO_CHANGE;
    asset.override = null;
    judge(asset, clock, Evidence.BOTH);
    return APPLIED;
  }

  private String purge(Asset asset) {
    if (asset.shown == null) return NO_CHANGE;
    asset.clear(time);
    return APPLIED;
  }

  // ---- the tally ----

  /** Holds the votes as they are at `at` against the state. */
  private void judge(Asset asset, long at, Evidence evidence) {
    Vote[] live = Tally.live(asset.votes);
    if (asset.state == null) {
      judgeFirst(asset, live);
    } else if (rule.lifeCycle) {
      follow(asset, live, at);
    } else {
      weigh(asset, live, at, evidence);
      if (evidence.up) endWaits(asset, at);
    }
  }

  private void judgeFirst(Asset asset, Vote[] live) {
    asset.waits = Asset.NO_WAITS;
    if (live.length > 0) asset.state = Tally.tally(rule, live, null);
  }

  /** In a life cycle no state is worse than another: what the votes make is what is next. */
  private void follow(Asset asset, Vote[] live, long at) {
    String target = live.length < rule.minVoters ? asset.state
        : Tally.tally(rule, live, asset.state);
    if (target.equals(asset.state)) {
      asset.waits = Asset.NO_WAITS;
    } else if (rule.hold(target) == 0) {
      asset.state = target;
      asset.waits = Asset.NO_WAITS;
    } else if (asset.waits.length == 0 || !asset.waits[0].state().equals(target)) {
      asset.waits = new Wait[] {new Wait(target, at)};
    }
  }

  /** Begins and breaks off waits for worse and for milder states. */
  private void weigh(Asset asset, Vote[] live, long at, Evidence evidence) {
    int here = rule.rank(asset.state);
    if (live.length == 0) { // silence ends no wait for a worse state
      if (asset.waits.length > 0) keepWaits(asset, wait -> rule.rank(wait.state()) < here);
      return;
    }
    String raised = Tally.tally(rule, live, asset.state);
    String low = Tally.lowered(rule, live, Tally.silent(asset.votes), asset.state, raised);
    if (asset.waits.length == 0 && raised.equals(asset.state) && low.equals(asset.state)) return;
    int lowest = rule.rank(low);
    List<Wait> rising = new ArrayList<>();
    List<Wait> falling = new ArrayList<>();
    for (Wait wait : asset.waits) {
      int rank = rule.rank(wait.state());
      if (rank > here) falling.add(wait);
      else if (rank < here && (!evidence.up || rank >= lowest)) rising.add(wait);
    }
    if (evidence.up && live.length >= rule.raiseVoters) {
      for (int rank = rule.rank(raised); rank < here; rank++) begin(rising, rule.state(rank), at);
    }
    boolean falls = rising.isEmpty() && live.length >= rule.minVoters;
    asset.waits = sorted(falls ? fall(falling, low, here, at, evidence.down) : rising);
  }

  /**
   * The waits for milder states, where `low` is the mildest that votes bear out. A wait for it is as
   * old as one for a milder state that it takes the place of.
   */
  private List<Wait> fall(List<Wait> falling, String low, int here, long at, boolean begins) {
    int lowest = rule.rank(low);
    long since = at;
    List<Wait> left = new ArrayList<>();
    for (Wait wait : falling) {
      if (rule.rank(wait.state()) <= lowest) left.add(wait);
      else since = Math.min(since, wait.since());
    }
    if (begins && lowest > here) begin(left, low, since);
    return left;
  }

  private static void begin(List<Wait> waits, String state, long at) {
    for (Wait wait : waits) {
      if (wait.state().equals(state)) return;
    }
    waits.add(new Wait(state, at));
  }

  private static Wait[] sorted(List<Wait> waits) {
    if (waits.isEmpty()) return Asset.NO_WAITS;
    waits.sort((one, other) -> Names.compare(one.state(), other.state()));
    return waits.toArray(Wait[]::new);
  }

  private static void keepWaits(Asset asset, Predicate<Wait> kept) {
    Wait[] left = Arrays.stream(asset.waits).filter(kept).toArray(Wait[]::new);
    asset.waits = left.length == 0 ? Asset.NO_WAITS : left;
  }

  /** Lets the waits that are over by `at` bring their states. */
  private void endWaits(Asset asset, long at) {
    for (String target = ended(asset, at); target != null; target = ended(asset, at)) {
      int to = rule.rank(target);
      boolean up = to < rule.rank(asset.state);
      asset.state = target;
      keepWaits(asset, wait -> up ? rule.rank(wait.state()) < to : rule.rank(wait.state()) > to);
    }
  }

  /**
   * Of the waits that are over the one that counts: the worst for a worse state, else the mildest;
   * or null.
   */
  private String ended(Asset asset, long at) {
    int here = rule.rank(asset.state);
    String worst = null;
    String mildest = null;
    for (Wait wait : asset.waits) {
      if (wait.since() + rule.hold(wait.state()) > at) continue;
      int rank = rule.rank(wait.state());
      if (rank < here && (worst == null || rank < rule.rank(worst))) worst = wait.state();
      if (mildest == null || rank > rule.rank(mildest)) mildest = wait.state();
    }
    return worst != null ? worst : mildest;
  }

  /** Whether anything is kept of the vote once it is not live any more. */
  private boolean isKept(Vote vote) {
    return rule.forgetDelay != NONE && vote.muted() == null
        && !vote.agent().startsWith(Names.USER);
  }

  // ---- time ----

  private boolean passTime() {
    String name = store.popDue(clock);
    if (name == null) return false;
    Asset asset = store.get(name);
    Due due = asset.nextDue(rule);
    if (due != null && due.time() <= clock) fire(name, asset, due, due.time());
    else store.due(name, asset, due);
    return true;
  }

  private void fire(String name, Asset asset, Due due, long at) {
    if (due.order() == Asset.FORGET) {
      store.remove(name);
      return;
    }
    View before = asset.view(rule);
    asset.step++;
    Cause cause = causeOfTime(asset, due, at);
    switch (due.order()) {
      case Asset.OVERRIDE_END:
        asset.override = null;
        break;
      case Asset.VOTE_EXPIRY:
        expire(asset, due.time(), due.time());
        judge(asset, at, Evidence.SILENCE);
        break;
      case Asset.VOTE_FORGOTTEN:
        asset.votes = without(asset.votes, isForgotten(due.time()));
        judge(asset, at, Evidence.SILENCE);
        dropUnknown(asset, at);
        break;
      case Asset.MUTE_END:
        for (Vote vote : asset.votes) {
          if (isUnmuted(due.time()).test(vote)) putMark(asset, vote.agent(), null);
        }
        judge(asset, at, Evidence.BOTH);
        break;
      case Asset.HOLD:
        endWaits(asset, at);
        break;
      case Asset.REMINDER:
        cause = remind(asset, due, at, cause);
        break;
      default:
        asset.clear(at);
    }
    finish(name, asset, before, cause, cause.time(), null, true);
  }

  /** Has the votes that live no longer than `upto` be silent since `since`, or gone. */
  private void expire(Asset asset, long upto, long since) {
    Predicate<Vote> expires = expires(upto);
    List<Vote> kept = new ArrayList<>(asset.votes.length);
    for (Vote vote : asset.votes) {
      if (!expires.test(vote)) kept.add(vote);
      else if (isKept(vote)) kept.add(vote.fallenSilent(since));
    }
    asset.votes = kept.toArray(Vote[]::new);
  }

  /** Purges an asset that nothing ever tallied, once the last that was said of it is gone. */
  private static void dropUnknown(Asset asset, long at) {
    if (asset.state == null && asset.override == null && asset.votes.length == 0) asset.clear(at);
  }

  private static Predicate<Vote> expires(long upto) {
    return vote -> vote.silent() == NONE && vote.expires() != NONE && vote.expires() <= upto;
  }

  private Predicate<Vote> isForgotten(long upto) {
    return vote -> vote.silent() != NONE && vote.silent() + rule.forgetWait() <= upto;
  }

  private static Predicate<Vote> isUnmuted(long upto) {
    return vote -> vote.muted() != null && vote.muted().until() != NONE
        && vote.muted().until() <= upto;
  }

  private static Vote[] without(Vote[] votes, Predicate<Vote> gone) {
    return Arrays.stream(votes).filter(gone.negate()).toArray(Vote[]::new);
  }

  /** One record for all reminders that are due before anything else of this asset is. */
  private Cause remind(Asset asset, Due due, long at, Cause cause) {
    long every = rule.reminder(asset.shown);
    long missed = Math.floorDiv(clock - due.time(), every);
    Due first = asset.nextBesidesReminder(rule);
    if (first != null) {
      long spare = first.order() < Asset.REMINDER ? -1 : 0;
      missed = Math.min(missed, Math.floorDiv(first.time() - due.time() + spare, every));
    }
    asset.step += missed;
    asset.reminded = due.time() + missed * every;
    return at > due.time() ? cause : cause.at(asset.reminded);
  }

  private Cause causeOfTime(Asset asset, Due due, long at) {
    Override pinned = due.order() == Asset.OVERRIDE_END ? asset.override : null;
    String user = pinned == null ? null : pinned.user();
    Vote only = onlyOf(asset, due);
    if (only != null && due.order() == Asset.MUTE_END) user = only.muted().user();
    return new Cause(Asset.DUE_TYPES.get(due.order()), partition, asset.offset, at,
        only == null ? null : only.agent(), user, pinned == null ? null : pinned.command());
  }

  /** The vote of which something is due, where it is of one alone; else null. */
  private Vote onlyOf(Asset asset, Due due) {
    Predicate<Vote> isDue;
    if (due.order() == Asset.VOTE_EXPIRY) isDue = expires(due.time());
    else if (due.order() == Asset.VOTE_FORGOTTEN) isDue = isForgotten(due.time());
    else if (due.order() == Asset.MUTE_END) isDue = isUnmuted(due.time());
    else return null;
    Vote[] found = Arrays.stream(asset.votes).filter(isDue).toArray(Vote[]::new);
    return found.length == 1 ? found[0] : null;
  }

  // ---- a change of rule ----

  private void stop(Source.UnknownFold unknown) {
    if (unknown.scenario().equals(rule.name)) {
      throw new UnknownFoldVersion(unknown.scenario(), unknown.fold());
    }
    out.dead("bad-scenario");
  }

  private void switchTo(Rule changed) {
    if (!changed.name.equals(rule.name)) {
      out.dead("bad-scenario");
      return;
    }
    if (changed.inPython) throw new NeedsPython(rule.name);
    if (changed.equals(rule)) return;
    former = rule;
    rule = changed;
    change = cause("scenario", null, null, null);
    waiting = store.names();
  }

  /** Puts an asset under a changed rule, or marks an agent's vote on it anew. */
  private void putUnder(String name) {
    Asset asset = store.get(name);
    if (asset == null || asset.shown == null) return;
    if (change.agent() != null) {
      markAnew(name, asset, change.agent());
      return;
    }
    View before = begin(asset, former);
    adopt(asset);
    finish(name, asset, before, change, clock, null, false);
    catchUp(name);
  }

  private void adopt(Asset asset) {
    asset.votes = Arrays.stream(asset.votes).filter(vote -> rule.knows(vote.state()))
        .map(vote -> vote.weighing(weight(vote.agent()))).toArray(Vote[]::new);
    if (asset.override != null && !rule.knows(asset.override.state())) asset.override = null;
    boolean same = rule.lifeCycle == former.lifeCycle && asset.state != null;
    keepWaits(asset, wait -> same && rule.knows(wait.state())
        && (rule.lifeCycle || isWorse(rule, wait, asset) == isWorse(former, wait, asset)));
    judge(asset, clock, Evidence.BOTH);
    age(asset);
    expire(asset, clock, clock);
    judge(asset, clock, Evidence.SILENCE);
  }

  private static boolean isWorse(Rule rule, Wait wait, Asset asset) {
    return rule.rank(wait.state()) < rule.rank(asset.state);
  }

  /** Gives the votes the lifetime of the rule, and keeps the silent ones where they are kept. */
  private void age(Asset asset) {
    List<Vote> aged = new ArrayList<>(asset.votes.length);
    for (Vote vote : asset.votes) {
      if (vote.silent() == NONE) aged.add(vote.expiring(expiry(vote)));
      else if (isKept(vote)) aged.add(vote);
    }
    asset.votes = aged.toArray(Vote[]::new);
  }

  private long expiry(Vote vote) {
    return rule.voteLifetime == NONE ? NONE : vote.time() + rule.voteLifetime - vote.age();
  }

  private void catchUp(String name) {
    Asset asset;
    while ((asset = store.get(name)) != null) {
      Due due = asset.nextDue(rule);
      if (due == null || due.time() > clock) return;
      fire(name, asset, due, clock);
    }
  }

  // ---- mutes ----

  private void mute(Mutes.Mute mute) {
    if (mute.until() != NONE && mute.until() <= clock) {
      out.dead("bad-time");
      return;
    }
    if (!mutes.hasRoom(mute.agent())) {
      out.dead("too-many-mutes");
      return;
    }
    mutes.put(mute);
    change = cause("mute", mute.agent(), mute.user(), mute.id());
    waiting = store.names();
  }

  private void unmute(Source.Unmute unmute) {
    if (!mutes.contains(unmute.agent())) return;
    mutes.remove(unmute.agent());
    change = cause("unmute", unmute.agent(), unmute.user(), unmute.id());
    waiting = store.names();
  }

  private void markAnew(String name, Asset asset, String agent) {
    Vote vote = asset.vote(agent);
    Muted mark = mutes.mark(agent);
    if (vote == null || Objects.equals(vote.muted(), mark)) return;
    View before = begin(asset);
    putMark(asset, agent, mark);
    judge(asset, clock, mark == null ? Evidence.BOTH : Evidence.UP);
    finish(name, asset, before, change, clock, null, false);
  }

  /** Marks a vote, or unmarks it; what a silent agent said last goes once it is muted. */
  private void putMark(Asset asset, String agent, Muted mark) {
    Vote vote = asset.vote(agent);
    if (mark != null && vote.silent() != NONE) asset.withdraw(agent);
    else asset.put(vote.marked(mark, mark == null ? rule.weight(agent) : 0));
  }

  private long weight(String agent) {
    return mutes.contains(agent) ? 0 : rule.weight(agent);
  }

  // ---- before and after an event ----

  private View begin(Asset asset) {
    return begin(asset, rule);
  }

  /** rule: the one in force before the event. */
  private View begin(Asset asset, Rule rule) {
    View before = asset.view(rule);
    asset.offset = offset;
    asset.step = 0;
    return before;
  }

  private void finish(String name, Asset asset, View before, Cause cause, long at, Answer answer,
      boolean forced) {
    show(asset, before, at);
    boolean refresh = cause.type().equals("report") && at - asset.emittedAt >= REFRESH_AFTER;
    if (answer != null || forced || refresh || before.differs(asset, rule)) {
      asset.emittedAt = at;
      out.state(name, asset, cause, answer);
    }
    live += (asset.shown != null ? 1 : 0) - (before.shown() != null ? 1 : 0);
    keep(name, asset, at);
  }

  private void show(Asset asset, View before, long at) {
    Override pin = asset.override;
    if (pin != null && !Objects.equals(pin.underlying(), asset.state)) {
      asset.override = pin.over(asset.state);
    }
    asset.show();
    if (asset.shown != null) Tally.mark(rule, asset);
    if (!Objects.equals(asset.shown, before.shown())) {
      asset.previous = before.shown();
      asset.since = asset.reminded = at;
    }
    if (!before.lookedAt(asset, rule)) {
      asset.changedOffset = asset.offset;
      asset.changedStep = asset.step;
    }
  }

  private void keep(String name, Asset asset, long at) {
    Asset kept = asset;
    if (asset.shown != null) {
      asset.forgetAt = NONE;
    } else if (asset.answers.length > 0 || asset.purgedAt != NONE) {
      kept = asset.trace(at, rule);
    } else {
      store.remove(name);
      return;
    }
    store.put(name, kept);
    store.due(name, kept, kept.nextDue(rule));
  }

  private Cause cause(String type, String agent, String user, String command) {
    return new Cause(type, partition, offset, clock, agent, user, command);
  }
}
