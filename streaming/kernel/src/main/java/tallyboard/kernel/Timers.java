package tallyboard.kernel;

import java.util.Arrays;
import java.util.function.Predicate;
import tallyboard.kernel.Asset.Due;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.Vote;

/**
 * What happens to an asset when something is due, as the end of a vote, a pin, a mute or a hold:
 * domain/timers.py.
 */
final class Timers {
  private Timers() {}

  /**
   * Lets one thing that is due happen to an asset, as of `at` ms. Reminders are the fold's own
   * matter, and so is the end of an asset's trace.
   */
  static void carryOut(Rule rule, Asset asset, Due due, long at) {
    switch (due.order()) {
      case Asset.OVERRIDE_END:
        asset.override = null;
        break;
      case Asset.VOTE_EXPIRY:
        Votes.expire(rule, asset, due.time(), due.time());
        Transitions.judge(rule, asset, at, Evidence.SILENCE);
        break;
      case Asset.VOTE_FORGOTTEN:
        Votes.forget(rule, asset, due.time());
        Transitions.judge(rule, asset, at, Evidence.SILENCE);
        asset.dropUnknown(at);
        break;
      case Asset.MUTE_END:
        Votes.unmute(rule, asset, due.time());
        Transitions.judge(rule, asset, at, Evidence.BOTH);
        break;
      case Asset.HOLD:
        Transitions.endWaits(rule, asset, at);
        break;
      case Asset.PURGE_AFTER:
        asset.clear(at);
        break;
      default:
        throw new IllegalArgumentException("due: " + due.order());
    }
  }

  /** Notes one reminder for all that are due by `clock` ms, before anything else of the asset. */
  static void remind(Rule rule, Asset asset, Due due, long clock) {
    long every = rule.reminder(asset.shown);
    long missed = Math.floorDiv(clock - due.time(), every);
    Due first = asset.nextBesidesReminder(rule);
    if (first != null) {
      long spare = first.order() < Asset.REMINDER ? -1 : 0;
      missed = Math.min(missed, Math.floorDiv(first.time() - due.time() + spare, every));
    }
    asset.step += missed;
    asset.reminded = due.time() + missed * every;
  }

  /** Returns the cause of what is due, as of `at` ms: whose vote, pin or mute it is of. */
  static Cause cause(Rule rule, Asset asset, Due due, long at, int partition) {
    Override pinned = due.order() == Asset.OVERRIDE_END ? asset.override : null;
    String user = pinned == null ? null : pinned.user();
    Vote only = onlyOf(rule, asset, due);
    if (only != null && due.order() == Asset.MUTE_END) user = only.muted().user();
    return new Cause(Asset.DUE_TYPES.get(due.order()), partition, asset.offset, at,
        only == null ? null : only.agent(), user, pinned == null ? null : pinned.command());
  }

  /** Returns the vote of which something is due, where it is of one alone; else null. */
  private static Vote onlyOf(Rule rule, Asset asset, Due due) {
    Predicate<Vote> isDue;
    if (due.order() == Asset.VOTE_EXPIRY) isDue = Votes.expires(due.time());
    else if (due.order() == Asset.VOTE_FORGOTTEN) isDue = Votes.isForgotten(rule, due.time());
    else if (due.order() == Asset.MUTE_END) isDue = Votes.isUnmuted(due.time());
    else return null;
    Vote[] those = Arrays.stream(asset.votes).filter(isDue).toArray(Vote[]::new);
    return those.length == 1 ? those[0] : null;
  }
}
