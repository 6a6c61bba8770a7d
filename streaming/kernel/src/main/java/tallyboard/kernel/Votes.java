package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Vote;

/**
 * The votes on an asset: which of them are kept, since when they are silent, who is muted:
 * domain/votes.py.
 */
final class Votes {
  private static final int MAX_VOTERS = 200;
  private static final long NONE = Rule.NONE;

  private Votes() {}

  // ---- room for a newcomer ----

  /** Sees that there is a place for a newcomer's vote; returns whether there is. */
  static boolean makeRoom(Rule rule, Asset asset, Vote vote) {
    if (asset.votes.length < MAX_VOTERS || asset.vote(vote.agent()) != null) return true;
    Vote leastNeeded = leastNeeded(rule, asset, vote);
    if (leastNeeded == null) return false;
    asset.withdraw(leastNeeded.agent());
    return true;
  }

  /** Returns the vote that makes way; never one worse than the newcomer's. */
  private static Vote leastNeeded(Rule rule, Asset asset, Vote newcomer) {
    if (rule.lifeCycle) return null;
    int bound = rule.rank(newcomer.state());
    Vote least = null;
    for (Vote vote : asset.votes) {
      boolean givesWay = vote.precedence() <= newcomer.precedence()
          && (!vote.counts() || rule.rank(vote.state()) >= bound);
      if (givesWay && (least == null || goesBefore(rule, vote, least))) least = vote;
    }
    return least;
  }

  private static boolean goesBefore(Rule rule, Vote vote, Vote other) {
    if (vote.precedence() != other.precedence()) return vote.precedence() < other.precedence();
    int rank = rule.rank(vote.state());
    int otherRank = rule.rank(other.state());
    if (rank != otherRank) return rank > otherRank;
    if (vote.order() != other.order()) return vote.order() < other.order();
    return vote.offset() < other.offset();
  }

  // ---- silence ----

  /** Returns whether anything is kept of the vote once it is not live any more. */
  static boolean isKept(Rule rule, Vote vote) {
    return rule.forgetDelay != NONE && vote.muted() == null
        && !vote.agent().startsWith(Names.USER);
  }

  /** Has the votes that live no longer than `upto` be silent since `since`, or gone. */
  static void expire(Rule rule, Asset asset, long upto, long since) {
    Predicate<Vote> expires = expires(upto);
    List<Vote> kept = new ArrayList<>(asset.votes.length);
    for (Vote vote : asset.votes) {
      if (!expires.test(vote)) kept.add(vote);
      else if (isKept(rule, vote)) kept.add(vote.fallenSilent(since));
    }
    asset.votes = kept.toArray(Vote[]::new);
  }

  /** Takes out the silent votes that are kept no longer than `upto` ms. */
  static void forget(Rule rule, Asset asset, long upto) {
    asset.votes = Arrays.stream(asset.votes).filter(isForgotten(rule, upto).negate())
        .toArray(Vote[]::new);
  }

  /** Gives the votes the lifetime of the rule, and keeps the silent ones where they are kept. */
  static void age(Rule rule, Asset asset) {
    List<Vote> aged = new ArrayList<>(asset.votes.length);
    for (Vote vote : asset.votes) {
      if (vote.silent() == NONE) aged.add(vote.expiring(expiry(rule, vote)));
      else if (isKept(rule, vote)) aged.add(vote);
    }
    asset.votes = aged.toArray(Vote[]::new);
  }

  private static long expiry(Rule rule, Vote vote) {
    return rule.voteLifetime == NONE ? NONE : vote.time() + rule.voteLifetime - vote.age();
  }

  // ---- mutes ----

  /** Marks a vote, or unmarks it; what a silent agent said last goes once it is muted. */
  static void putMark(Rule rule, Asset asset, String agent, Muted mark) {
    Vote vote = asset.vote(agent);
    if (mark != null && vote.silent() != NONE) asset.withdraw(agent);
    else asset.put(vote.marked(mark, mark == null ? rule.weight(agent) : 0));
  }

  /** Unmarks the votes whose mute lasts no longer than `upto` ms. */
  static void unmute(Rule rule, Asset asset, long upto) {
    for (Vote vote : asset.votes) {
      if (isUnmuted(upto).test(vote)) putMark(rule, asset, vote.agent(), null);
    }
  }

  // ---- votes whose timer fires ----

  static Predicate<Vote> expires(long upto) {
    return vote -> vote.silent() == NONE && vote.expires() != NONE && vote.expires() <= upto;
  }

  static Predicate<Vote> isForgotten(Rule rule, long upto) {
    return vote -> vote.silent() != NONE && vote.silent() + rule.forgetWait() <= upto;
  }

  static Predicate<Vote> isUnmuted(long upto) {
    return vote -> vote.muted() != null && vote.muted().until() != NONE
        && vote.muted().until() <= upto;
  }
}
