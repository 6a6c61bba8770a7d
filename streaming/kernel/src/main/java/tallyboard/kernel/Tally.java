package tallyboard.kernel;

import java.util.Arrays;
import tallyboard.kernel.Asset.Doubt;
import tallyboard.kernel.Asset.Vote;

/** The rule applied to votes, and the marks that they make: domain/tally.py. */
final class Tally {
  private static final Vote[] NONE = {};
  /** What disputes a state where nobody can read what a refused report says. */
  private static final String UNREADABLE = "unreadable";

  private Tally() {}

  /** The state that `votes` (at least one) make, where `current` (or null) is the state so far. */
  static String tally(Rule rule, Vote[] votes, String current) {
    if (rule.latest) return newest(votes).state();
    String outcome = climb(rule, votes);
    if (!outcome.equals(Rule.KEEP)) return outcome;
    if (current != null) return current;
    return rule.lifeCycle ? newest(votes).state() : worst(rule, votes);
  }

  /**
   * The votes on an asset that count. live: those that raise a state; sure: the live ones without
   * doubt, which lower it; quiet: the others, which speak against lowering it.
   */
  record Voices(Vote[] live, Vote[] sure, Vote[] quiet) {
    /** Returns an asset's votes by what they may do. */
    static Voices of(Rule rule, Asset asset) {
      Vote[] live = Tally.live(rule, asset.votes);
      Vote[] sure = Doubts.trusted(live, asset);
      return new Voices(live, sure, sure == asset.votes ? NONE : Tally.quiet(rule, asset));
    }
  }

  /**
   * Returns what raises, where there is a live vote: what all live votes make, or what those
   * without doubt make, where it is worse and they are voters enough to raise a state.
   */
  static String raised(Rule rule, Voices voices, String current) {
    String made = tally(rule, voices.live, current);
    int sure = voices.sure.length;
    if (sure == 0 || sure == voices.live.length || sure < rule.raiseVoters) return made;
    String trusted = tally(rule, voices.sure, current);
    return rule.rank(made) <= rule.rank(trusted) ? made : trusted;
  }

  /**
   * Returns the mildest state that live votes without doubt bear out and that no silent or doubted
   * one stands against; where there is none the worse one of `current` and what raises.
   */
  static String lowered(Rule rule, Voices voices, String current, String raised) {
    int mildest = -1;
    for (Vote vote : voices.sure) mildest = Math.max(mildest, rule.rank(vote.state()));
    for (int place = Math.min(rule.rank(raised), mildest); place >= 0; place--) {
      if (isBorneOut(rule, voices, current, place)) return rule.state(place);
    }
    return rule.rank(current) <= rule.rank(raised) ? current : raised;
  }

  /** Whether sure votes, with the quiet ones worse than this rank's state, make it or milder. */
  private static boolean isBorneOut(Rule rule, Voices voices, String current, int place) {
    Vote[] worse = worse(rule, voices.quiet, place);
    Vote[] votes = worse.length == 0 ? voices.sure : joined(voices.sure, worse);
    if (rule.latest && rule.rank(last(votes).state()) < place) return false;
    boolean isRaised = worse.length == 0 && voices.sure.length == voices.live.length;
    return isRaised || rule.rank(tally(rule, votes, current)) >= place;
  }

  private static Vote[] worse(Rule rule, Vote[] quiet, int place) {
    if (quiet.length == 0) return NONE;
    return Arrays.stream(quiet).filter(v -> rule.rank(v.state()) < place).toArray(Vote[]::new);
  }

  private static Vote[] joined(Vote[] some, Vote[] more) {
    Vote[] all = Arrays.copyOf(some, some.length + more.length);
    System.arraycopy(more, 0, all, some.length, more.length);
    return all;
  }

  private static String climb(Rule rule, Vote[] votes) {
    long[] weights = rule.lifeCycle ? null : weights(rule, votes);
    long whole = rule.electorate;
    if (whole == Rule.NONE) {
      whole = 0;
      for (Vote vote : votes) whole += vote.weight();
    }
    for (Rule.Threshold threshold : rule.ladder) {
      long weight = rule.lifeCycle ? weight(votes, threshold.state()) : weights[rule.rank(threshold.state())];
      if (threshold.met(weight, whole)) return threshold.state();
    }
    return rule.fallback;
  }

  /** By rank, the weight that a threshold sums: of its state or worse; of the mildest state alone. */
  private static long[] weights(Rule rule, Vote[] votes) {
    long[] weights = new long[rule.states()];
    for (Vote vote : votes) {
      int rank = rule.rank(vote.state());
      if (rank >= 0) weights[rank] += vote.weight();
      else if (weights.length > 1) weights[0] += vote.weight(); // worse than all
    }
    for (int rank = 1; rank < weights.length - 1; rank++) weights[rank] += weights[rank - 1];
    return weights;
  }

  private static long weight(Vote[] votes, String state) {
    long sum = 0;
    for (Vote vote : votes) {
      if (vote.state().equals(state)) sum += vote.weight();
    }
    return sum;
  }

  private static Vote newest(Vote[] votes) {
    Vote newest = votes[0];
    for (Vote vote : votes) {
      if (vote.offset() > newest.offset()) newest = vote;
    }
    return newest;
  }

  private static Vote last(Vote[] votes) {
    Vote last = votes[0];
    for (Vote vote : votes) {
      boolean later = vote.order() == last.order() ? vote.offset() > last.offset()
          : vote.order() > last.order();
      if (later) last = vote;
    }
    return last;
  }

  private static String worst(Rule rule, Vote[] votes) {
    Vote worst = votes[0];
    for (Vote vote : votes) {
      if (rule.rank(vote.state()) < rule.rank(worst.state())) worst = vote;
    }
    return worst.state();
  }

  // ---- votes that count ----

  static Vote[] live(Rule rule, Vote[] votes) {
    for (Vote vote : votes) {
      if (!Votes.isLive(rule, vote)) {
        return Arrays.stream(votes).filter(v -> Votes.isLive(rule, v)).toArray(Vote[]::new);
      }
    }
    return votes;
  }

  /** Returns those that count and are silent or in doubt. */
  private static Vote[] quiet(Rule rule, Asset asset) {
    for (Vote vote : asset.votes) {
      if (isQuiet(rule, vote, asset)) {
        return Arrays.stream(asset.votes).filter(v -> isQuiet(rule, v, asset)).toArray(Vote[]::new);
      }
    }
    return NONE;
  }

  private static boolean isQuiet(Rule rule, Vote vote, Asset asset) {
    return vote.counts() && (!Votes.isLive(rule, vote) || Doubts.isDoubted(vote, asset));
  }

  // ---- marks ----

  /** Puts on the asset whether its tallied state is confirmed, and who disputes what it shows. */
  static void mark(Rule rule, Asset asset) {
    int sure = 0;
    int worst = Integer.MAX_VALUE;
    int worstLive = Integer.MAX_VALUE;
    int mildest = -1;
    boolean flapping = false;
    for (Vote vote : asset.votes) {
      if (!vote.counts()) continue;
      int rank = rule.rank(vote.state());
      worst = Math.min(worst, rank);
      flapping |= vote.flapping() != null;
      if (vote.silent() != Rule.NONE || rank < 0) continue;
      worstLive = Math.min(worstLive, rank);
      if (Doubts.isDoubted(vote, asset)) continue;
      sure++;
      mildest = Math.max(mildest, rank);
    }
    boolean isWorse = !rule.lifeCycle && worst < rule.rank(asset.shown);
    asset.unconfirmed = unconfirmedReason(rule, asset, sure, worstLive, mildest);
    asset.disputed = flapping || worst < 0 || asset.doubts.length > 0 ? disputed(rule, asset)
        : isWorse ? rule.state(worst) : null;
  }

  /** sure: how many votes are live without doubt; mildest: their mildest rank. */
  private static String unconfirmedReason(Rule rule, Asset asset, int sure, int worst,
      int mildest) {
    if (sure < rule.minVoters) return sure + " of " + rule.minVoters + " voters";
    if (rule.lifeCycle || asset.state == null) return null;
    int rank = rule.rank(asset.state);
    if (mildest < rank) return "nobody says it is this good";
    if (worst > rank && !asset.falling(rule)) return "nobody says it is this bad";
    return null;
  }

  /** Returns the worst that a vote or a doubt says, if it is worse than what is shown; or null. */
  private static String disputed(Rule rule, Asset asset) {
    if (rule.lifeCycle) return null;
    Said worst = new Said(rule.rank(asset.shown), Long.MAX_VALUE, null);
    for (Vote vote : asset.votes) {
      if (!vote.counts()) continue;
      worst = worst.or(rule.rank(vote.state()), vote.offset(), vote.state());
      if (vote.flapping() == null) continue;
      String turned = vote.flap().state();
      worst = worst.or(rule.rank(turned), vote.offset(), turned);
    }
    for (Doubt doubt : asset.doubts) {
      String said = doubt.said() == null ? UNREADABLE : doubt.said();
      if (doubt.counts()) worst = worst.or(Doubts.severity(rule, doubt), doubt.offset(), said);
    }
    return worst.state;
  }

  /** What a vote or a doubt says, its rank, and where it lies in the log. */
  private record Said(int rank, long offset, String state) {
    /** Returns this, or what is worse, or as bad and newer. */
    Said or(int rank, long offset, String state) {
      boolean worse = rank != this.rank ? rank < this.rank : offset > this.offset;
      return worse ? new Said(rank, offset, state) : this;
    }
  }
}
