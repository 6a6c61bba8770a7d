package tallyboard.kernel;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import tallyboard.kernel.Asset.Doubt;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Voice;
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
      boolean givesWay = precedence(rule, vote) <= precedence(rule, newcomer)
          && (!vote.counts() || rule.rank(vote.state()) >= bound);
      if (givesWay && (least == null || goesBefore(rule, vote, least))) least = vote;
    }
    return least;
  }

  private static boolean goesBefore(Rule rule, Vote vote, Vote other) {
    int precedence = precedence(rule, vote);
    int otherPrecedence = precedence(rule, other);
    if (precedence != otherPrecedence) return precedence < otherPrecedence;
    int rank = rule.rank(vote.state());
    int otherRank = rule.rank(other.state());
    if (rank != otherRank) return rank > otherRank;
    if (vote.order() != other.order()) return vote.order() < other.order();
    return vote.offset() < other.offset();
  }

  /** Returns how much a vote counts: nothing, as a silent one, or as a live one. */
  private static int precedence(Rule rule, Vote vote) {
    return !vote.counts() ? 0 : isLive(rule, vote) ? 2 : 1;
  }

  // ---- silence ----

  /** Returns whether a vote is live; one for a state that the rule does not know is as silent. */
  static boolean isLive(Rule rule, Vote vote) {
    return vote.live() && rule.rank(vote.state()) >= 0;
  }

  /** Returns a vote that repeats its agent's claim: it ends no later than the former one. */
  static Vote asOldAs(Vote vote, Vote former) {
    boolean same = vote.expires() == NONE || former.expires() == NONE
        || vote.expires() <= former.expires();
    return same ? vote : vote.ending(vote.age() + vote.expires() - former.expires(), former);
  }

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
    return rule.lifetime == NONE ? NONE : vote.time() + rule.lifetime - vote.age();
  }

  /** Takes out an agent's vote, and before CLAIM_FOLD the doubt about it. */
  static void withdraw(Rule rule, Asset asset, String agent) {
    asset.withdraw(agent);
    if (!rule.byClaim) Doubts.drop(asset, doubt -> doubt.agent().equals(agent));
  }

  // ---- mutes ----

  /** Marks an agent's vote and doubt, or unmarks them; what it said last goes if it is silent. */
  static void putMark(Rule rule, Asset asset, String agent, Muted mark) {
    long weight = mark == null ? rule.weight(agent) : 0;
    Doubt doubt = asset.doubt(agent);
    if (doubt != null) asset.put(doubt.marked(mark, weight));
    Vote vote = asset.vote(agent);
    if (vote == null) return;
    if (mark != null && vote.silent() != NONE) asset.withdraw(agent);
    else asset.put(vote.marked(mark, weight));
  }

  /** Unmarks the agents whose mute lasts no longer than `upto` ms. */
  static void unmute(Rule rule, Asset asset, long upto) {
    unmuted(asset, upto).forEach(agent -> putMark(rule, asset, agent, null));
  }

  // ---- agents whose timer fires ----

  /** Returns the agents whose live votes expire by `upto` ms. */
  static Stream<String> expiring(Asset asset, long upto) {
    return Arrays.stream(asset.votes).filter(expires(upto)).map(Vote::agent);
  }

  private static Predicate<Vote> expires(long upto) {
    return vote -> vote.silent() == NONE && vote.expires() != NONE && vote.expires() <= upto;
  }

  /** Returns the agents whose silent votes are kept no longer than `upto` ms. */
  static Stream<String> forgotten(Rule rule, Asset asset, long upto) {
    return Arrays.stream(asset.votes).filter(isForgotten(rule, upto)).map(Vote::agent);
  }

  private static Predicate<Vote> isForgotten(Rule rule, long upto) {
    return vote -> vote.silent() != NONE && vote.silent() + rule.forgetWait() <= upto;
  }

  /** Returns the agents whose mute ends by `upto` ms, each once. */
  static Stream<String> unmuted(Asset asset, long upto) {
    return Stream.<Voice>concat(Arrays.stream(asset.votes), Arrays.stream(asset.doubts))
        .filter(isUnmuted(upto)).map(Voice::agent).distinct();
  }

  private static Predicate<Voice> isUnmuted(long upto) {
    return voice -> voice.muted() != null && voice.muted().until() != NONE
        && voice.muted().until() <= upto;
  }
}
