package tallyboard.kernel;

import java.util.Arrays;
import tallyboard.kernel.Asset.Vote;

/** The rule applied to votes, and the marks that they make: domain/tally.py. */
final class Tally {
  private static final Vote[] NONE = {};

  private Tally() {}

  /** The state that `votes` (at least one) make, where `current` (or null) is the state so far. */
  static String tally(Rule rule, Vote[] votes, String current) {
    if (rule.latest) return newest(votes).state();
    String outcome = climb(rule, votes);
    if (!outcome.equals(Rule.KEEP)) return outcome;
    if (current != null) return current;
    return rule.lifeCycle ? newest(votes).state() : worst(rule, votes);
  }

  /** Returns the mildest state that live votes bear out and that no silent one stands against. */
  static String lowered(Rule rule, Vote[] live, Vote[] silent, String current, String raised) {
    int mildest = 0;
    for (Vote vote : live) mildest = Math.max(mildest, rule.rank(vote.state()));
    for (int place = Math.min(rule.rank(raised), mildest); place >= 0; place--) {
      if (bornOut(rule, live, silent, current, place)) return rule.state(place);
    }
    return rule.rank(current) <= rule.rank(raised) ? current : raised;
  }

  /** Whether live votes, with the silent ones worse than the state of this rank, make it or milder. */
  private static boolean bornOut(Rule rule, Vote[] live, Vote[] silent, String current, int place) {
    Vote[] worse = worse(rule, silent, place);
    Vote[] votes = worse.length == 0 ? live : joined(live, worse);
    if (rule.latest && rule.rank(last(votes).state()) < place) return false;
    return worse.length == 0 || rule.rank(tally(rule, votes, current)) >= place;
  }

  private static Vote[] worse(Rule rule, Vote[] silent, int place) {
    if (silent.length == 0) return NONE;
    return Arrays.stream(silent).filter(v -> rule.rank(v.state()) < place).toArray(Vote[]::new);
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
    for (Vote vote : votes) weights[rule.rank(vote.state())] += vote.weight();
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

  static Vote[] live(Vote[] votes) {
    for (Vote vote : votes) {
      if (!vote.live()) return Arrays.stream(votes).filter(Vote::live).toArray(Vote[]::new);
    }
    return votes;
  }

  /** Returns those that count and are silent. */
  static Vote[] silent(Vote[] votes) {
    for (Vote vote : votes) {
      if (vote.silent() != Rule.NONE) {
        return Arrays.stream(votes).filter(v -> v.silent() != Rule.NONE && v.counts())
            .toArray(Vote[]::new);
      }
    }
    return NONE;
  }

  // ---- marks ----

  /** Puts on the asset whether its tallied state is confirmed, and who disputes what it shows. */
  static void mark(Rule rule, Asset asset) {
    int live = 0;
    int worst = Integer.MAX_VALUE;
    int worstLive = Integer.MAX_VALUE;
    int mildest = -1;
    for (Vote vote : asset.votes) {
      if (!vote.counts()) continue;
      int rank = rule.rank(vote.state());
      worst = Math.min(worst, rank);
      if (vote.silent() != Rule.NONE) continue;
      live++;
      worstLive = Math.min(worstLive, rank);
      mildest = Math.max(mildest, rank);
    }
    asset.unconfirmed = unconfirmed(rule, asset, live, worstLive, mildest);
    asset.disputed = !rule.lifeCycle && worst < rule.rank(asset.shown) ? rule.state(worst) : null;
  }

  private static String unconfirmed(Rule rule, Asset asset, int live, int worst, int mildest) {
    if (live < rule.minVoters) return live + " of " + rule.minVoters + " voters";
    if (rule.lifeCycle || asset.state == null) return null;
    int rank = rule.rank(asset.state);
    if (mildest < rank) return "nobody says it is this good";
    if (worst > rank && !asset.falling(rule)) return "nobody says it is this bad";
    return null;
  }
}
