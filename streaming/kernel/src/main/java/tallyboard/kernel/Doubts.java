package tallyboard.kernel;

import java.util.Arrays;
import java.util.function.Predicate;
import java.util.stream.Stream;
import tallyboard.kernel.Asset.Doubt;
import tallyboard.kernel.Asset.Flap;
import tallyboard.kernel.Asset.Vote;

/**
 * Doubt: what could not be taken of an agent's reports stands against its vote. A voice in doubt
 * may raise an alarm, and never gives an all-clear: for what raises and disputes a state its vote
 * is live, for what lowers and confirms one it is as silent: domain/doubts.py.
 */
final class Doubts {
  static final String CLOCK_AHEAD = "clock-ahead";
  static final String CLOCK_BACK = "clock-back";
  static final String PURGED = "purged";
  static final String CONTRADICTION = "contradiction";
  static final String STALE = "stale";
  static final String RENAMED = "renamed";
  private static final int MAX_VOTELESS = 16;

  private Doubts() {}

  /** Returns whether a vote is in doubt, by its own report or as its agent is. */
  static boolean isDoubted(Vote vote, Asset asset) {
    return vote.doubt() != null || asset.doubt(vote.agent()) != null;
  }

  /** Returns the votes without doubt: all of them as they are, where none is doubted. */
  static Vote[] trusted(Vote[] votes, Asset asset) {
    for (Vote vote : votes) {
      if (isDoubted(vote, asset)) {
        return Arrays.stream(votes).filter(v -> !isDoubted(v, asset)).toArray(Vote[]::new);
      }
    }
    return votes;
  }

  /** Returns the rank of what a doubt says: what nobody can read is worse than all. */
  static int severity(Rule rule, Doubt doubt) {
    return doubt.said() == null ? -1 : rule.rank(doubt.said());
  }

  // ---- causes ----

  /** Doubts an agent; of two doubts the worse word and the later end are kept. */
  static void put(Rule rule, Asset asset, Doubt doubt) {
    asset.put(merged(rule, asset.doubt(doubt.agent()), doubt));
    Doubt[] voteless = Arrays.stream(asset.doubts)
        .filter(each -> asset.vote(each.agent()) == null).toArray(Doubt[]::new);
    if (voteless.length <= MAX_VOTELESS) return;
    String agent = leastNeeded(rule, voteless).agent();
    drop(asset, each -> each.agent().equals(agent));
  }

  private static Doubt merged(Rule rule, Doubt former, Doubt doubt) {
    if (former == null) return doubt;
    boolean worse = severity(rule, former) < severity(rule, doubt);
    String said = worse ? former.said() : doubt.said();
    String reason = worse ? former.reason() : doubt.reason();
    if (isPassing(reason)) { // the agent's next report must not end what another cause began
      reason = isPassing(doubt.reason()) ? former.reason() : doubt.reason();
    }
    return doubt.saying(said, reason);
  }

  /** Returns the doubt that makes way. */
  private static Doubt leastNeeded(Rule rule, Doubt[] doubts) {
    Doubt least = doubts[0];
    for (Doubt doubt : doubts) {
      if (goesBefore(rule, doubt, least)) least = doubt;
    }
    return least;
  }

  /**
   * One that counts nothing first, then the one that ends first (before CLAIM_FOLD the mildest),
   * then the oldest.
   */
  private static boolean goesBefore(Rule rule, Doubt doubt, Doubt other) {
    if (doubt.counts() != other.counts()) return other.counts();
    if (rule.byClaim) {
      return doubt.until() != other.until() ? doubt.until() < other.until()
          : doubt.offset() < other.offset();
    }
    int rank = severity(rule, doubt);
    int otherRank = severity(rule, other);
    return rank != otherRank ? rank > otherRank : doubt.offset() < other.offset();
  }

  /**
   * Returns the vote with the last time at which its agent turned worse, where it is of use. It goes
   * on turning worse as long as it has not turned milder: that is once, in steps.
   */
  static Vote flap(Rule rule, Vote former, Vote vote) {
    if (former == null) return vote;
    Flap last = former.flap();
    if (last != null && last.until() <= vote.time()) last = null;
    int rank = rule.rank(vote.state());
    if (rank >= rule.rank(former.state())) return last == null ? vote : vote.flapped(last);
    String state = last != null && rule.rank(last.state()) <= rank ? last.state() : vote.state();
    boolean turned = last != null && rule.rank(former.state()) > rule.rank(last.state());
    boolean again = last != null && (last.again() || turned);
    return vote.flapped(new Flap(state, vote.time(), vote.time() + rule.lifetime, again));
  }

  // ---- ends ----

  /**
   * Ends a doubt that lasts until its agent reports again, as this vote does; from CLAIM_FOLD on one
   * that claims to be later than what caused the doubt.
   */
  static void hear(Rule rule, Asset asset, Vote vote) {
    Doubt doubt = asset.doubt(vote.agent());
    if (doubt == null || !isPassing(doubt.reason())) return;
    if (!rule.byClaim || vote.claimed() > doubt.time()) drop(asset, each -> each == doubt);
  }

  private static boolean isPassing(String reason) {
    return reason.equals(STALE) || reason.equals(RENAMED);
  }

  /** Ends the doubts, and what counts of votes that flapped, that last no longer than `upto`. */
  static void end(Asset asset, long upto) {
    drop(asset, doubt -> doubt.until() <= upto);
    for (Vote vote : asset.votes) {
      if (isOver(vote, upto)) asset.put(vote.flapped(null));
    }
  }

  /** Returns the agents of whom `end` would end something, each once. */
  static Stream<String> ending(Asset asset, long upto) {
    return Stream.concat(
        Arrays.stream(asset.doubts).filter(doubt -> doubt.until() <= upto).map(Doubt::agent),
        Arrays.stream(asset.votes).filter(vote -> isOver(vote, upto)).map(Vote::agent)).distinct();
  }

  private static boolean isOver(Vote vote, long upto) {
    return vote.flapping() != null && vote.flap().until() <= upto;
  }

  static void drop(Asset asset, Predicate<Doubt> dropped) {
    if (asset.doubts.length == 0) return;
    Doubt[] left = Arrays.stream(asset.doubts).filter(dropped.negate()).toArray(Doubt[]::new);
    asset.doubts = left.length == 0 ? Asset.NO_DOUBTS : left;
  }

  // ---- a change of rule ----

  /**
   * Takes out the votes for states that the rule does not know; their agents are doubted. From
   * CLAIM_FOLD on they stay.
   */
  static void rename(Rule rule, Mutes mutes, Asset asset, long at) {
    if (rule.byClaim) return;
    Vote[] votes = asset.votes;
    asset.votes = Arrays.stream(votes).filter(v -> rule.knows(v.state())).toArray(Vote[]::new);
    if (!rule.doubting || asset.votes.length == votes.length) return;
    for (Vote vote : votes) {
      if (rule.knows(vote.state())) continue;
      put(rule, asset, new Doubt(vote.agent(), RENAMED, vote.state(), at, vote.offset(),
          at + rule.lifetime, mutes.weight(rule, vote.agent()), vote.muted()));
    }
  }

  /** Puts the doubts under another rule: they last as long as a vote lives under it. */
  static void adopt(Rule rule, Rule former, Mutes mutes, Asset asset) {
    asset.votes = Arrays.stream(asset.votes).map(vote -> adopted(rule, vote)).toArray(Vote[]::new);
    if (!rule.doubting) {
      asset.doubts = Asset.NO_DOUBTS;
    } else if (asset.doubts.length > 0) {
      asset.doubts = Arrays.stream(asset.doubts)
          .map(doubt -> doubt.saying(said(rule, former, doubt), doubt.reason())
              .lasting(doubt.time() + rule.lifetime, mutes.weight(rule, doubt.agent())))
          .toArray(Doubt[]::new);
    }
  }

  private static Vote adopted(Rule rule, Vote vote) {
    Flap flap = vote.flap();
    if (!rule.doubting) return vote.doubt() == null && flap == null ? vote : vote.trusted();
    return flap == null ? vote : vote.flapped(flap.lasting(flap.time() + rule.lifetime));
  }

  /**
   * Returns what a doubt says under another rule. A word that the former rule did not know may hide
   * another one; once it is known, it is none.
   */
  private static String said(Rule rule, Rule former, Doubt doubt) {
    boolean learnt = severity(former, doubt) < 0 && severity(rule, doubt) >= 0;
    return learnt && rule.byClaim ? null : doubt.said();
  }
}
