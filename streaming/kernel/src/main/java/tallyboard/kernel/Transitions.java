package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import tallyboard.kernel.Asset.Vote;
import tallyboard.kernel.Asset.Wait;
import tallyboard.kernel.Tally.Voices;

/**
 * How the votes on an asset move its state, at once, or by a wait that lasts as long as a hold:
 * domain/transitions.py.
 */
final class Transitions {
  private Transitions() {}

  /** Holds the votes as they are at `at` against the state. */
  static void judge(Rule rule, Asset asset, long at, Evidence evidence) {
    judge(rule, asset, at, evidence, true);
  }

  /** ends: whether evidence ends the waits that are over, or they end as events of their own. */
  static void judge(Rule rule, Asset asset, long at, Evidence evidence, boolean ends) {
    Voices voices = Voices.of(rule, asset);
    if (asset.state == null) {
      judgeFirst(rule, asset, voices);
    } else if (rule.lifeCycle) {
      follow(rule, asset, voices.live(), at);
    } else {
      weigh(rule, asset, voices, at, evidence);
      if (ends && evidence.up) endWaits(rule, asset, at);
    }
  }

  private static void judgeFirst(Rule rule, Asset asset, Voices voices) {
    asset.waits = Asset.NO_WAITS;
    if (voices.live().length > 0) asset.state = Tally.raised(rule, voices, null);
  }

  /** In a life cycle no state is worse than another: what the votes make is what is next. */
  private static void follow(Rule rule, Asset asset, Vote[] live, long at) {
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
  private static void weigh(Rule rule, Asset asset, Voices voices, long at, Evidence evidence) {
    int here = rule.rank(asset.state);
    if (voices.live().length == 0) { // silence ends no wait for a worse state
      if (asset.waits.length > 0) keepWaits(asset, wait -> rule.rank(wait.state()) < here);
      return;
    }
    String high = Tally.raised(rule, voices, asset.state);
    String low = Tally.lowered(rule, voices, asset.state, high);
    if (asset.waits.length == 0 && high.equals(asset.state) && low.equals(asset.state)) return;
    int lowest = rule.rank(low);
    List<Wait> rising = new ArrayList<>();
    List<Wait> falling = new ArrayList<>();
    for (Wait wait : asset.waits) {
      int rank = rule.rank(wait.state());
      if (rank > here) falling.add(wait);
      else if (rank < here && (!evidence.up || rank >= lowest)) rising.add(wait);
    }
    if (evidence.up && voices.live().length >= rule.raiseVoters) {
      for (int rank = rule.rank(high); rank < here; rank++) begin(rising, rule.state(rank), at);
    }
    boolean falls = rising.isEmpty() && voices.sure().length >= rule.minVoters;
    asset.waits = sorted(falls ? fall(rule, falling, low, here, at, evidence.down) : rising);
  }

  /**
   * The waits for milder states, where `low` is the mildest that votes bear out. A wait for it is as
   * old as one for a milder state that it takes the place of.
   */
  private static List<Wait> fall(Rule rule, List<Wait> falling, String low, int here, long at, boolean begins) {
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

  static void keepWaits(Asset asset, Predicate<Wait> kept) {
    Wait[] left = Arrays.stream(asset.waits).filter(kept).toArray(Wait[]::new);
    asset.waits = left.length == 0 ? Asset.NO_WAITS : left;
  }

  /** Ends all waits of an asset where a mute has taken the last live vote. */
  static void endUnvoiced(Rule rule, Asset asset, Vote muted) {
    boolean taken = muted != null && Votes.isLive(rule, muted);
    if (taken && Arrays.stream(asset.votes).noneMatch(vote -> Votes.isLive(rule, vote))) {
      asset.waits = Asset.NO_WAITS;
    }
  }

  /** Lets the waits that are over by `at` bring their states. */
  static void endWaits(Rule rule, Asset asset, long at) {
    for (String target = ended(rule, asset, at); target != null; target = ended(rule, asset, at)) {
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
  private static String ended(Rule rule, Asset asset, long at) {
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
}
