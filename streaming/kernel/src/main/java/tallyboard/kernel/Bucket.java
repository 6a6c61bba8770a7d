package tallyboard.kernel;

import java.util.Collections;
import java.util.Iterator;
import java.util.Objects;
import tallyboard.kernel.Asset.Answer;
import tallyboard.kernel.Asset.Doubt;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.Timer;
import tallyboard.kernel.Asset.View;
import tallyboard.kernel.Asset.Voice;
import tallyboard.kernel.Asset.Vote;
import tallyboard.kernel.Lateness.Kind;

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

  /** From here on the log needs the Python engine: streaming/fold/assignment.py hands the scenario over. */
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
  /** How far an agent's clock may be ahead without a doubt, and where it is in doubt for that. */
  private static final long MAX_AHEAD = 300_000;
  private static final long STILL_AHEAD = 240_000;
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
    else if (entry instanceof Source.RefusedReport refused) refuseReport(refused);
    else if (entry instanceof Source.Leave leave) leave(leave);
    else if (entry instanceof Source.Misrouted each) lateness.add(each.agent(), Kind.FORWARDED);
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
    String fault = formerFault(rule, report);
    if (fault != null) {
      out.dead(fault);
    } else if (!rule.knows(report.state())) {
      refuseReport(new Source.RefusedReport(report.asset(), report.agent(), report.state(),
          "unknown-state", null, null));
    } else {
      if (report.detailFault() != null) lateness.add(report.agent(), Kind.DETAIL);
      lookAt(report, store.get(report.asset()));
    }
  }

  private void refuseReport(Source.RefusedReport refused) {
    if (refused.sunk() != null && !rule.piecewise) {
      out.dead(refused.sunk());
      return;
    }
    boolean former = !rule.lenient && "bad-field".equals(refused.detailFault());
    out.dead(former ? "bad-field" : refused.reason());
    lateness.add(refused.agent(), Kind.REFUSED);
    doubt(refused.asset(), refused.agent(), refused.reason(), refused.said());
  }

  /** Takes a report that says what the scenario knows, in doubt or not, unless it is late. */
  private void lookAt(Source.Report report, Asset asset) {
    Vote former = asset == null ? null : asset.vote(report.agent());
    boolean ahead = isAhead(report, former);
    long at = ahead ? NONE : report.reportedAt();
    Vote vote = voteOf(report, at);
    String doubt = ahead ? Doubts.CLOCK_AHEAD : null;
    boolean ordered = report.reportedAt() != NONE && (rule.byClaim || at != NONE);
    Kind kind = ordered ? lateKind(asset, vote) : null;
    if (kind != null) {
      String excuse = excuse(kind, asset, vote);
      if (excuse == null) {
        passOver(kind, vote, former, report.asset());
        return;
      }
      if (doubt == null) doubt = excuse;
      vote = keepClaim(former, vote);
    } else if (ordered && former != null && repeats(former, vote)) {
      vote = Votes.asOldAs(vote, former);
    }
    if (vote.silent() != NONE) {
      lateness.add(vote.agent(), Kind.SILENT, vote.age(), 0);
      doubt = null;
    }
    if (doubt != null) {
      lateness.add(vote.agent(), Kind.DOUBTFUL, 0, ahead ? report.ahead() : 0);
      if (rule.doubting) vote = vote.inDoubt(doubt);
    }
    take(report.asset(), asset, vote);
  }

  private void take(String name, Asset asset, Vote vote) {
    if (!vote.counts() && (asset == null || asset.shown == null)) return;
    if (asset == null) asset = new Asset();
    if (!Votes.makeRoom(rule, asset, vote)) {
      out.dead("too-many-agents");
      if (vote.silent() != NONE && vote.counts() && !vote.state().equals(rule.mildest)) {
        doubt(name, vote.agent(), Doubts.STALE, vote.state());
      }
      return;
    }
    View before = begin(asset);
    vote(asset, vote);
    if (!rule.tasks.isEmpty() && vote.live()) Tasks.reported(rule, asset, vote.state(), clock);
    finish(name, asset, before, cause("report", vote.agent(), null, null), clock, null, false);
  }

  /** Returns the vote that a report is, made at `at`; NONE: at its place in the log. */
  private Vote voteOf(Source.Report report, long at) {
    long age = at == NONE ? 0 : Math.max(0, time - at);
    long lifetime = rule.lifetime;
    long expires = lifetime == NONE ? NONE : clock + lifetime - age;
    long silent = lifetime != NONE && age >= lifetime ? expires : NONE;
    long reportedAt = report.reportedAt() == NONE ? clock : report.reportedAt();
    String agent = report.agent();
    return new Vote(agent, rule.own(report.state()), reportedAt, clock, offset, expires,
        mutes.weight(rule, agent), report.detail(), mutes.mark(agent), silent, order(at), age, null,
        report.detailFault(), null, report.reportedAt() == NONE ? time : report.reportedAt());
  }

  /** Returns where an agent's report stands in time: an agent's clock makes nothing later. */
  private long order(long reportedAt) {
    return reportedAt == NONE ? time : Math.min(reportedAt, time);
  }

  /** Returns how a report comes too late to be looked at, or null where it does not. */
  private Kind lateKind(Asset asset, Vote vote) {
    boolean tooOld = rule.reportAgeLimit != NONE && vote.age() > rule.reportAgeLimit;
    if (tooOld || vote.silent() != NONE && !Votes.isKept(rule, vote)) return Kind.STALE;
    if (asset == null) return null;
    Vote former = asset.vote(vote.agent());
    boolean outdated = former != null && isOutdated(former, vote);
    return outdated || isPurged(asset, vote.order()) ? Kind.LATE : null;
  }

  /**
   * Returns whether a report is late because of its agent's vote. From CLAIM_FOLD on, one that
   * arrives silent takes back no worse word, whatever it claims.
   */
  private boolean isOutdated(Vote former, Vote vote) {
    if (precedes(former, vote.claimed(), vote.order())) return true;
    boolean silent = rule.byClaim && vote.silent() != NONE;
    boolean milder = rule.rank(vote.state()) > rule.rank(former.state());
    return milder && (silent || repeats(former, vote));
  }

  /** Returns whether a record is older than its agent's vote. */
  private boolean precedes(Vote former, long claimed, long order) {
    return rule.byClaim ? claimed < former.claim() : order < former.order();
  }

  /** Returns whether a report has the same claim as its agent's vote. */
  private boolean repeats(Vote former, Vote vote) {
    return rule.byClaim && vote.claimed() == former.claim();
  }

  /**
   * Whether a record is older than the asset's purge; a purge that lies ahead of the record is of a
   * clock that was ahead, and says nothing.
   */
  private boolean isPurged(Asset asset, long order) {
    return asset.purgedAt != NONE && order < asset.purgedAt && asset.purgedAt <= time;
  }

  /**
   * Returns the doubt in which a late report is taken all the same, or null. It is one that its
   * agent's vote hides because its clock went back, or one of an agent whose clock is behind, from
   * before a purge; and it says worse.
   */
  private String excuse(Kind kind, Asset asset, Vote vote) {
    if (!rule.doubting || asset == null || kind != Kind.LATE || vote.silent() != NONE) return null;
    Vote former = asset.vote(vote.agent());
    if (former != null && isOutdated(former, vote)) {
      boolean unknown = rule.byClaim && rule.rank(former.state()) < 0;
      String known = unknown ? rule.mildest : former.state();
      boolean worse = rule.rank(vote.state()) < rule.rank(known);
      return worse && wentBack(asset, former, vote) ? Doubts.CLOCK_BACK : null;
    }
    boolean again = former != null && Doubts.PURGED.equals(former.doubt());
    return again || !vote.state().equals(rule.mildest) ? Doubts.PURGED : null;
  }

  /**
   * Returns whether a report is older than its agent's vote only because a clock went back: the
   * broker's, from CLAIM_FOLD on also the agent's.
   */
  private boolean wentBack(Asset asset, Vote former, Vote vote) {
    if (rule.byClaim && vote.claimed() >= former.order()) return true;
    return former.order() > time && !isPurged(asset, vote.order());
  }

  /**
   * Counts a report that is late; one that says worse makes its agent doubted, from CLAIM_FOLD on
   * one that repeats what is worse than the mildest state, too.
   */
  private void passOver(Kind kind, Vote vote, Vote former, String name) {
    lateness.add(vote.agent(), kind, vote.age(), 0);
    String known = former == null ? rule.mildest : former.state();
    boolean worse = rule.rank(vote.state()) < rule.rank(known);
    if (!worse && !(rule.byClaim && !vote.state().equals(rule.mildest))) return;
    boolean stale = !worse || kind == Kind.STALE && former == null;
    doubt(name, vote.agent(), stale ? Doubts.STALE : Doubts.CONTRADICTION, vote.state());
  }

  /** Doubts an agent on an asset that exists, for as long as a vote lives. */
  private void doubt(String name, String agent, String reason, String said) {
    Asset asset = rule.doubting ? store.get(name) : null;
    if (asset == null || asset.shown == null) return;
    View before = begin(asset);
    Doubts.put(rule, asset, new Doubt(agent, reason, said, clock, offset, clock + rule.lifetime,
        mutes.weight(rule, agent), mutes.mark(agent)));
    Transitions.judge(rule, asset, clock, Evidence.SILENCE);
    finish(name, asset, before, cause("report", agent, null, null), clock, null, false);
  }

  private void vote(Asset asset, Vote vote) {
    Vote former = asset.vote(vote.agent());
    if (former != null && former.silent() != NONE && vote.live()) {
      lateness.add(vote.agent(), Kind.RARE);
    }
    Vote taken = rule.doubting ? Doubts.flap(rule, former, vote) : vote;
    if (rule.doubting) Doubts.hear(rule, asset, vote);
    asset.put(taken);
    if (vote.counts()) Transitions.judge(rule, asset, clock, evidence(asset, taken));
  }

  private Evidence evidence(Asset asset, Vote vote) {
    if (!vote.live()) return Evidence.SILENCE;
    int rank = rule.rank(vote.state());
    int here = asset.state == null ? rank : rule.rank(asset.state);
    if (Doubts.isDoubted(vote, asset)) return rank < here ? Evidence.UP : Evidence.SILENCE;
    return rank > here ? Evidence.BOTH : Evidence.UP;
  }

  private void leave(Source.Leave leave) {
    if (leave.ahead() > MAX_AHEAD && !rule.lenient) {
      out.dead("bad-time");
      return;
    }
    Asset asset = store.get(leave.asset());
    String agent = leave.agent();
    if (asset == null || !canLeave(asset, agent)) return;
    if (isOlder(asset, leave)) {
      lateness.add(agent, Kind.LATE);
      return;
    }
    View before = begin(asset);
    Votes.withdraw(rule, asset, agent);
    Transitions.judge(rule, asset, clock, Evidence.SILENCE);
    asset.dropUnknown(time);
    finish(leave.asset(), asset, before, cause("leave", agent, null, null), clock, null, false);
  }

  /** Returns whether there is anything that the agent's leave withdraws. */
  private boolean canLeave(Asset asset, String agent) {
    return rule.byClaim ? asset.vote(agent) != null : asset.voice(agent) != null;
  }

  /** Returns whether a leave is older than its agent's vote, or than the asset's purge. */
  private boolean isOlder(Asset asset, Source.Leave leave) {
    long at = leave.reportedAt();
    if (at == NONE || leave.ahead() > MAX_AHEAD && !rule.byClaim) return false;
    Vote former = asset.vote(leave.agent());
    return former != null && precedes(former, at, order(at)) || isPurged(asset, order(at));
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
      case "purge":
        return Commands.purge(asset, time);
      default:
        throw new IllegalArgumentException("command: " + command.kind());
    }
  }

  private String voteByHand(Source.Command command, Asset asset) {
    String agent = Names.USER + command.user();
    Vote vote = voteOf(
        new Source.Report(command.asset(), agent, command.state(), NONE, null, 0, null, null), NONE);
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

  /** Counts what recurs without an effect; returns the cause of what is emitted. */
  private Cause recur(Asset asset, Timer timer, long at) {
    Timers.Place place = Timers.recur(rule, asset, clock, at);
    long time = at > timer.time() ? at : place.time();
    return Timers.causeOfRecurrence(asset, place, time, partition);
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
    Muted mark = mutes.mark(agent);
    Voice voice = asset.voice(agent);
    if (voice == null || Objects.equals(voice.muted(), mark)) return;
    View before = begin(asset);
    Vote vote = asset.vote(agent);
    Votes.putMark(rule, asset, agent, mark);
    Transitions.judge(rule, asset, clock, mark == null ? Evidence.BOTH : Evidence.UP);
    if (mark != null && rule.doubting) Transitions.endUnvoiced(rule, asset, vote);
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
    asset.settle(rule, at);
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

  /** Returns the vote of a late report that is taken, with the later claim of the two. */
  private static Vote keepClaim(Vote former, Vote vote) {
    boolean own = former == null || former.claim() <= vote.claimed();
    return own ? vote : vote.claiming(former.claim());
  }

  /** Returns why a rule of an earlier fold refuses a report, or null where it does not. */
  private static String formerFault(Rule rule, Source.Report report) {
    if (report.sunk() != null && !rule.piecewise) return report.sunk();
    if (rule.lenient) return null;
    if ("bad-field".equals(report.detailFault())) return report.detailFault();
    return report.ahead() > MAX_AHEAD ? "bad-time" : report.detailFault();
  }

  /** Whether an agent's clock is too far ahead; once it was, a little less is enough. */
  private static boolean isAhead(Source.Report report, Vote former) {
    boolean still = former != null && Doubts.CLOCK_AHEAD.equals(former.doubt());
    return report.ahead() > (still ? STILL_AHEAD : MAX_AHEAD);
  }
}
