package tallyboard.kernel;

import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.Objects;
import tallyboard.kernel.Asset.Answer;
import tallyboard.kernel.Asset.Due;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.Pending;
import tallyboard.kernel.Asset.View;
import tallyboard.kernel.Asset.Vote;

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

  /** From here on the log needs the Python engine: streaming/engines.py hands the scenario over. */
  static final class NeedsPython extends RuntimeException {
    NeedsPython(String scenario) {
      super("NeedsPython: " + scenario);
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
  private final Out out;
  Rule rule;
  long clock;
  long offset = -1;
  long live;
  long stale;
  /** The assets that a change of rule or a mute has still to go through, and what brought it. */
  private Iterator<String> waiting = Collections.emptyIterator();
  private Cause change;

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
    if (entry instanceof Source.Report report) report(report);
    else if (entry instanceof Source.Command command) command(command);
    else if (entry instanceof Source.Change changed) switchTo(changed.rule());
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
    long reportedAt = report.reportedAt() == NONE ? clock : report.reportedAt();
    Asset asset = store.get(report.asset());
    if (tooOld(reportedAt) || tooLate(asset, report.agent(), reportedAt)) return;
    if ((asset == null || asset.shown == null) && mutes.contains(report.agent())) return;
    if (asset == null) asset = new Asset();
    if (!hasRoom(asset, report.agent())) {
      out.dead("too-many-agents");
      return;
    }
    View before = begin(asset);
    vote(asset, report.agent(), report.state(), reportedAt, report.detail());
    finish(report.asset(), asset, before, cause("report", report.agent(), null, null), clock, null,
        false);
  }

  private boolean tooOld(long reportedAt) {
    boolean old = rule.maxReportAge != NONE && clock - reportedAt > rule.maxReportAge;
    if (old) stale++;
    return old;
  }

  private static boolean tooLate(Asset asset, String agent, long reportedAt) {
    Vote vote = asset == null ? null : asset.vote(agent);
    return vote != null && reportedAt < vote.reportedAt();
  }

  private static boolean hasRoom(Asset asset, String agent) {
    return asset.votes.length < MAX_VOTERS || asset.vote(agent) != null;
  }

  private void vote(Asset asset, String agent, String state, long reportedAt, String detail) {
    asset.put(new Vote(agent, state, reportedAt, clock, offset, expiry(clock), weight(agent),
        detail, mutes.mark(agent)));
    settle(asset, clock);
  }

  private long expiry(long time) {
    return rule.voteLifetime == NONE ? NONE : time + rule.voteLifetime;
  }

  // ---- commands ----

  private void command(Source.Command command) {
    Asset asset = getOrNew(command.asset());
    View before = begin(asset);
    String outcome = asset.answerTo(command.id());
    if (outcome == null) outcome = refusal(command, asset);
    if (outcome == null) outcome = carryOut(command, asset);
    answer(command.asset(), asset, before, command.kind(), command.id(), command.user(), outcome);
  }

  private void refuse(Source.Refusal refusal) {
    Asset asset = getOrNew(refusal.asset());
    View before = begin(asset);
    String outcome = asset.answerTo(refusal.id());
    if (outcome == null) outcome = REFUSED + refusal.reason();
    answer(refusal.asset(), asset, before, "refused", refusal.id(), refusal.user(), outcome);
  }

  private Asset getOrNew(String name) {
    Asset asset = store.get(name);
    return asset == null ? new Asset() : asset;
  }

  private void answer(String name, Asset asset, View before, String kind, String id, String user,
      String outcome) {
    Answer answer = new Answer(id, outcome);
    asset.remember(answer);
    String type = outcome.startsWith(REFUSED) ? "refused" : kind;
    finish(name, asset, before, cause(type, null, user, id), clock, answer, false);
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
    if (kind.equals("vote") && !hasRoom(asset, Names.USER + command.user())) {
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
        vote(asset, Names.USER + command.user(), command.state(), clock, null);
        return APPLIED;
      case "release":
        return release(command, asset);
      default:
        return purge(asset);
    }
  }

  private String set(Source.Command command, Asset asset) {
    Override pinned = new Override(command.state(), command.until(), command.user(),
        command.reason(), command.id(), clock, null);
    if (asset.override != null && asset.override.samePin(pinned)) return NO_CHANGE;
    asset.override = pinned;
    asset.unconfirmed = isUnconfirmed(asset);
    return APPLIED;
  }

  private String release(Source.Command command, Asset asset) {
    boolean voted = asset.withdraw(Names.USER + command.user());
    if (asset.override == null && !voted) return NO_CHANGE;
    unpin(asset);
    if (voted) settle(asset, clock);
    return APPLIED;
  }

  private static String purge(Asset asset) {
    if (asset.shown == null) return NO_CHANGE;
    asset.clear();
    return APPLIED;
  }

  private static void unpin(Asset asset) {
    if (asset.override != null && asset.state == null) asset.state = asset.override.state();
    asset.override = null;
  }

  // ---- the tally ----

  /** The live votes whose agents are not muted. */
  private Vote[] counted(Asset asset) {
    if (mutes.isEmpty()) return asset.votes;
    return Arrays.stream(asset.votes).filter(v -> v.muted() == null).toArray(Vote[]::new);
  }

  private boolean isUnconfirmed(Asset asset) {
    return counted(asset).length < rule.minVoters;
  }

  private void settle(Asset asset, long at) {
    Vote[] votes = counted(asset);
    asset.unconfirmed = votes.length < rule.minVoters;
    if (asset.state == null && votes.length > 0) asset.state = tally(votes, null);
    else if (asset.unconfirmed || asset.state == null) asset.pending = null;
    else aim(asset, tally(votes, asset.state), at);
  }

  private void aim(Asset asset, String target, long at) {
    long hold = rule.hold(target);
    if (target.equals(asset.state)) {
      asset.pending = null;
    } else if (hold == 0) {
      asset.state = target;
      asset.pending = null;
    } else if (asset.pending == null || !asset.pending.state().equals(target)) {
      asset.pending = new Pending(target, at, at + hold);
    }
  }

  private String tally(Vote[] votes, String current) {
    if (rule.latest) return newest(votes).state();
    String found = climb(votes);
    if (!found.equals(Rule.KEEP)) return found;
    return current != null ? current : newest(votes).state();
  }

  private String climb(Vote[] votes) {
    long whole = rule.electorate == NONE ? weight(votes, null) : rule.electorate;
    for (Rule.Rung rung : rule.ladder) {
      if (rung.met(weight(votes, rung.state()), whole)) return rung.state();
    }
    return rule.fallback;
  }

  /** Weight of the votes for `state`, or of all where it is null. */
  private static long weight(Vote[] votes, String state) {
    long found = 0;
    for (Vote vote : votes) {
      if (state == null || vote.state().equals(state)) found += vote.weight();
    }
    return found;
  }

  private static Vote newest(Vote[] votes) {
    Vote newest = votes[0];
    for (Vote vote : votes) {
      if (vote.offset() > newest.offset()) newest = vote;
    }
    return newest;
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
    View before = asset.view();
    asset.step++;
    Cause cause = causeOfTime(asset, due, at);
    switch (due.order()) {
      case Asset.OVERRIDE_END:
        unpin(asset);
        break;
      case Asset.VOTE_EXPIRY:
        asset.withdraw(due.agent());
        settle(asset, at);
        break;
      case Asset.MUTE_END:
        putMark(asset, due.agent(), null);
        settle(asset, at);
        break;
      case Asset.HOLD:
        asset.state = asset.pending.state();
        asset.pending = null;
        break;
      case Asset.REMINDER:
        cause = remind(asset, due, at, cause);
        break;
      default:
        asset.clear();
    }
    finish(name, asset, before, cause, cause.time(), null, true);
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
    if (due.order() == Asset.MUTE_END) user = asset.vote(due.agent()).muted().user();
    return new Cause(Asset.DUE_TYPES.get(due.order()), partition, asset.offset, at,
        due.agent().isEmpty() ? null : due.agent(), user,
        pinned == null ? null : pinned.command());
  }

  // ---- a change of rule ----

  private void switchTo(Rule changed) {
    if (!changed.name.equals(rule.name)) {
      out.dead("bad-scenario");
      return;
    }
    if (changed.inPython) throw new NeedsPython(rule.name);
    if (changed.equals(rule)) return;
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
    View before = begin(asset);
    adopt(asset);
    finish(name, asset, before, change, clock, null, false);
    catchUp(name);
  }

  private void adopt(Asset asset) {
    Vote[] old = asset.votes;
    asset.clearVotes();
    for (Vote vote : old) {
      if (rule.knows(vote.state())) asset.put(underRule(vote));
    }
    if (asset.override != null && !rule.knows(asset.override.state())) unpin(asset);
    if (asset.pending != null) {
      Pending held = asset.pending;
      asset.pending = !rule.knows(held.state()) ? null
          : new Pending(held.state(), held.since(), held.since() + rule.hold(held.state()));
    }
    settle(asset, clock);
  }

  private Vote underRule(Vote vote) {
    return new Vote(vote.agent(), vote.state(), vote.reportedAt(), vote.time(), vote.offset(),
        expiry(vote.time()), weight(vote.agent()), vote.detail(), vote.muted());
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
    settle(asset, clock);
    finish(name, asset, before, change, clock, null, false);
  }

  private void putMark(Asset asset, String agent, Muted mark) {
    asset.put(asset.vote(agent).marked(mark, mark == null ? rule.weight(agent) : 0));
  }

  private long weight(String agent) {
    return mutes.contains(agent) ? 0 : rule.weight(agent);
  }

  // ---- before and after an event ----

  private View begin(Asset asset) {
    View before = asset.view();
    asset.offset = offset;
    asset.step = 0;
    return before;
  }

  private void finish(String name, Asset asset, View before, Cause cause, long at, Answer answer,
      boolean forced) {
    show(asset, before, at);
    boolean refresh = cause.type().equals("report") && at - asset.emittedAt >= REFRESH_AFTER;
    if (answer != null || forced || refresh || before.differs(asset)) {
      asset.emittedAt = at;
      out.state(name, asset, cause, answer);
    }
    live += (asset.shown != null ? 1 : 0) - (before.shown() != null ? 1 : 0);
    keep(name, asset, at);
  }

  private static void show(Asset asset, View before, long at) {
    Override pin = asset.override;
    if (pin != null && !Objects.equals(pin.underlying(), asset.state)) {
      asset.override = pin.over(asset.state);
    }
    asset.shown = pin != null ? pin.state() : asset.state;
    if (!Objects.equals(asset.shown, before.shown())) {
      asset.previous = before.shown();
      asset.since = asset.reminded = at;
    }
    if (!before.standsIn(asset)) {
      asset.changedOffset = asset.offset;
      asset.changedStep = asset.step;
    }
  }

  private void keep(String name, Asset asset, long at) {
    Asset kept = asset;
    if (asset.shown == null) {
      if (asset.answers.length == 0) {
        store.remove(name);
        return;
      }
      kept = asset.gone(at);
    } else {
      asset.forgetAt = NONE;
    }
    store.put(name, kept);
    store.due(name, kept, kept.nextDue(rule));
  }

  private Cause cause(String type, String agent, String user, String command) {
    return new Cause(type, partition, offset, clock, agent, user, command);
  }
}
