package tallyboard.kernel;

import java.util.Collections;
import java.util.Iterator;
import java.util.Objects;
import tallyboard.kernel.Asset.Answer;
import tallyboard.kernel.Asset.Timer;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.View;
import tallyboard.kernel.Asset.Vote;

/**
 * All assets of one source partition, and the fold over its log. domain/fold.py is the
 * specification: the methods here bear its names and stand in its order, and so do those of the
 * classes beside it, each in a file of domain/ of the same name.
 */
final class Bucket {
  /** Keeps the assets of a bucket, and the next timer of each. */
  interface Store {
    Asset get(String name);

    void put(String name, Asset asset);

    void remove(String name);

    Iterator<String> names();

    /** Sets the next timer of an asset, which is kept; null: it has none. */
    void setTimer(String name, Asset asset, Timer timer);

    /** Takes out the next asset that may have a timer at or before `upto` ms; null if none has. */
    String popTimer(long upto);
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

  /** What the fold emits. */
  interface Out {
    /** The asset's record, a tombstone if it is not shown any more. */
    void state(String name, Asset asset, Cause cause, Answer answer);

    void dead(String reason);
  }

  private static final long REFRESH_AFTER = 30_000;
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
   * Comes to the record at `offset`, appended at `time` ms. Call `goOn` until every timer up to then
   * has fired, then `apply`, and again `goOn`: a change of rule and a mute leave the assets waiting.
   * So what leaves a bucket at one time is never more than one asset's.
   */
  void moveTo(long offset, long time) {
    this.time = time;
    clock = Math.max(clock, time);
    this.offset = offset;
  }

  /** Returns whether assets are still to be put under a change. */
  boolean changes() {
    return waiting.hasNext();
  }

  /** Fires one timer, or puts one asset under a change; returns false when nothing is left. */
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

  /** Applies what bears no signature, unless the rule in force demands one; nothing is answered. */
  private void takeUnsigned(Source.Unsigned unsigned) {
    if (rule.signedCommands) out.dead("unsigned");
    else dispatch(unsigned.entry());
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
    if (!Votes.makeRoom(rule, asset, vote)) {
      out.dead("too-many-agents");
      return;
    }
    View before = begin(asset);
    vote(asset, vote);
    if (!rule.tasks.isEmpty() && vote.live()) Tasks.reported(rule, asset, vote.state(), clock);
    finish(report.asset(), asset, before, cause("report", report.agent(), null, null), clock, null,
        false);
  }

  private Vote voteOf(String agent, String state, long reportedAt, String detail) {
    long age = reportedAt == NONE ? 0 : Math.max(0, time - reportedAt);
    long lifetime = rule.voteLifetime;
    long expires = lifetime == NONE ? NONE : clock + lifetime - age;
    long silent = lifetime != NONE && age >= lifetime ? expires : NONE;
    return new Vote(agent, rule.own(state), reportedAt == NONE ? clock : reportedAt, clock, offset, expires,
        mutes.weight(rule, agent), detail, mutes.mark(agent), silent, order(reportedAt), age);
  }

  /** Returns where an agent's report stands in time: an agent's clock makes nothing later. */
  private long order(long reportedAt) {
    return reportedAt == NONE ? time : Math.min(reportedAt, time);
  }

  /** Returns whether a report comes too late to be looked at; late ones are counted. */
  private boolean isLate(Asset asset, Vote vote) {
    boolean tooOld = rule.reportAgeLimit != NONE && vote.age() > rule.reportAgeLimit;
    if (tooOld || vote.silent() != NONE && !Votes.isKept(rule, vote)) {
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

  private void vote(Asset asset, Vote vote) {
    Vote before = asset.vote(vote.agent());
    if (before != null && before.silent() != NONE && vote.live()) lateness.rare(vote.agent());
    asset.put(vote);
    if (!vote.counts()) return;
    boolean milder = asset.state != null && rule.rank(vote.state()) > rule.rank(asset.state);
    Transitions.judge(rule, asset, clock, !vote.live() ? Evidence.SILENCE : milder ? Evidence.BOTH : Evidence.UP);
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
    Transitions.judge(rule, asset, clock, Evidence.SILENCE);
    asset.dropUnknown(time);
    finish(leave.asset(), asset, before, cause("leave", leave.agent(), null, null), clock, null,
        false);
  }

  // ---- commands ----

  private void command(Source.Command command) {
    Asset asset = getOrNew(command.asset());
    View before = begin(asset);
    Answer answer = asset.answered(command.id());
    if (answer == null) {
      String outcome = outcome(command, asset);
      String cause = outcome.startsWith(Commands.REFUSED) ? "refused" : Commands.causeOf(command.kind());
      answer = new Answer(command.id(), outcome, cause, command.user());
    }
    answer(command.asset(), asset, before, answer);
  }

  private void refuse(Source.Refusal refusal) {
    Asset asset = getOrNew(refusal.asset());
    View before = begin(asset);
    Answer answer = asset.answered(refusal.id());
    if (answer == null) {
      answer = new Answer(refusal.id(), Commands.REFUSED + refusal.reason(), "refused", refusal.user());
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

  private String outcome(Source.Command command, Asset asset) {
    String refused = Commands.refusal(rule, command, asset, clock);
    if (refused == null) refused = Tasks.refusal(rule, command, asset, clock);
    if (refused != null) return Commands.REFUSED + refused;
    switch (command.kind()) {
      case "set":
        return Commands.pin(command, asset, clock);
      case "vote":
        return voteByHand(command, asset);
      case "release":
        return Commands.release(rule, asset, command.user(), clock);
      case "schedule":
        return Tasks.schedule(command, asset, clock);
      case "cancel":
        return Tasks.cancel(command, asset);
      default:
        return Commands.purge(asset, time);
    }
  }

  private String voteByHand(Source.Command command, Asset asset) {
    Vote vote = voteOf(Names.USER + command.user(), command.state(), NONE, null);
    if (!Votes.makeRoom(rule, asset, vote)) return Commands.REFUSED + "too many agents";
    vote(asset, vote);
    return Commands.APPLIED;
  }

  // ---- time ----

  private boolean passTime() {
    String name = store.popTimer(clock);
    if (name == null) return false;
    Asset asset = store.get(name);
    Timer timer = asset.nextTimer(rule);
    if (timer != null && timer.time() <= clock) fire(name, asset, timer, timer.time());
    else store.setTimer(name, asset, timer);
    return true;
  }

  private void fire(String name, Asset asset, Timer timer, long at) {
    if (timer.order() == Asset.FORGET) {
      store.remove(name);
      return;
    }
    View before = asset.view(rule);
    Cause cause;
    if (Timers.recurs(asset, timer)) {
      cause = recur(asset, timer, at);
    } else {
      asset.step++;
      cause = Timers.cause(rule, asset, timer, at, partition);
      Timers.carryOut(rule, asset, timer, at);
    }
    finish(name, asset, before, cause, cause.time(), null, true);
  }

  /** Counts what recurs without an effect; returns the cause of what is heard of. */
  private Cause recur(Asset asset, Timer timer, long at) {
    Timers.Place heard = Timers.recur(rule, asset, clock, at);
    long time = at > timer.time() ? at : heard.time();
    return Timers.causeOfRecurrence(asset, heard, time, partition);
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
    Adoption.adopt(rule, former, mutes, asset, clock);
    finish(name, asset, before, change, clock, null, false);
    catchUp(name);
  }

  private void catchUp(String name) {
    Asset asset;
    while ((asset = store.get(name)) != null) {
      Timer timer = asset.nextTimer(rule);
      if (timer == null || timer.time() > clock) return;
      fire(name, asset, timer, clock);
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
    Votes.putMark(rule, asset, agent, mark);
    Transitions.judge(rule, asset, clock, mark == null ? Evidence.BOTH : Evidence.UP);
    finish(name, asset, before, change, clock, null, false);
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
    if (asset.tasks.length > 0) Tasks.dropFinished(asset);
    live += (asset.shown != null ? 1 : 0) - (before.shown() != null ? 1 : 0);
    keep(name, asset, at);
  }

  private void show(Asset asset, View before, long at) {
    Override pin = asset.override;
    if (pin != null && !Objects.equals(pin.underlying(), asset.state)) {
      asset.override = pin.over(asset.state);
    }
    asset.shown = asset.toShow();
    if (asset.shown != null) Tally.mark(rule, asset);
    if (!Objects.equals(asset.shown, before.shown())) {
      asset.previous = before.shown();
      asset.since = asset.reminded = at;
      if (asset.tasks.length > 0 || !rule.tasks.isEmpty()) Tasks.enter(rule, asset, at);
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
    store.setTimer(name, kept, kept.nextTimer(rule));
  }

  private Cause cause(String type, String agent, String user, String command) {
    return new Cause(type, partition, offset, clock, agent, user, command);
  }
}
