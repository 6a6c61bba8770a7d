package tallyboard.kernel;

import java.util.Arrays;
import tallyboard.kernel.Asset.Vote;
import tallyboard.kernel.Asset.Wait;

/** How an asset goes over from one rule to another: domain/adoption.py. */
final class Adoption {
  private Adoption() {}

  /**
   * Puts what the asset holds under the rule, as of `at` ms. First the votes as they were, newly
   * weighed, are evidence; then their lifetimes count anew, and what that ends is silence. Only
   * then do waits end that are over.
   */
  static void adopt(Rule rule, Rule former, Mutes mutes, Asset asset, long at) {
    Doubts.rename(rule, mutes, asset, at);
    asset.votes = Arrays.stream(asset.votes)
        .map(vote -> vote.weighing(mutes.weight(rule, vote.agent()))).toArray(Vote[]::new);
    if (asset.override != null && !rule.knows(asset.override.state())) asset.override = null;
    boolean same = rule.lifeCycle == former.lifeCycle && asset.state != null;
    Transitions.keepWaits(asset, wait -> same && rule.knows(wait.state())
        && (rule.lifeCycle || isWorse(rule, wait, asset) == isWorse(former, wait, asset)));
    Transitions.judge(rule, asset, at, Evidence.BOTH, !rule.doubting);
    Votes.age(rule, asset);
    Doubts.adopt(rule, former, mutes, asset);
    Votes.expire(rule, asset, at, at);
    Doubts.end(asset, at);
    Transitions.judge(rule, asset, at, Evidence.SILENCE);
    Tasks.adopt(rule, former, asset, at);
  }

  private static boolean isWorse(Rule rule, Wait wait, Asset asset) {
    return rule.rank(wait.state()) < rule.rank(asset.state);
  }
}
