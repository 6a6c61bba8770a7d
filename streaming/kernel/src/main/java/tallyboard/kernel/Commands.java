package tallyboard.kernel;

import tallyboard.kernel.Asset.Override;

/**
 * What commands do to an asset's override and to the asset; a vote is the fold's own matter:
 * domain/commands.py.
 */
final class Commands {
  static final String APPLIED = "applied";
  static final String NO_CHANGE = "no-change";
  static final String REFUSED = "refused: ";
  private static final long NONE = Rule.NONE;

  private Commands() {}

  /** Returns why a command cannot be carried out at `clock` ms, or null where it can be. */
  static String refusal(Rule rule, Source.Command command, Asset asset, long clock) {
    String kind = command.kind();
    if (command.ifVersion() != null) {
      if (asset.shown == null) return "no such asset any more";
      if (movedOn(asset, command.ifVersion())) return "the state has moved on";
    }
    boolean claims = kind.equals("set") || kind.equals("vote");
    if (claims && !rule.knows(command.state())) return "unknown state";
    if (kind.equals("set") && command.until() != NONE && command.until() <= clock) {
      return "the end is in the past";
    }
    return null;
  }

  private static boolean movedOn(Asset asset, long[] seen) {
    if (asset.changedOffset != seen[1]) return asset.changedOffset > seen[1];
    return asset.changedStep > seen[2];
  }

  /** Returns the type of the cause that a command is: `schedule` is that of a task's run. */
  static String causeOf(String kind) {
    return kind.equals("schedule") ? "scheduled" : kind.equals("cancel") ? "cancelled" : kind;
  }

  /** Sets an override that begins at `clock` ms; returns the outcome. */
  static String pin(Source.Command command, Asset asset, long clock) {
    Override pinned = new Override(command.state(), command.until(), command.user(),
        command.reason(), command.id(), clock, null);
    if (asset.override != null && asset.override.samePin(pinned)) return NO_CHANGE;
    asset.override = pinned;
    return APPLIED;
  }

  /** Ends the override, and withdraws the operator's vote; returns the outcome. */
  static String release(Rule rule, Asset asset, String user, long clock) {
    boolean voted = asset.withdraw(Names.USER + user);
    if (asset.override == null && !voted) return NO_CHANGE;
    asset.override = null;
    Transitions.judge(rule, asset, clock, Evidence.BOTH);
    return APPLIED;
  }

  /** Forgets the state; reports older than `at` ms do not bring it back. Returns the outcome. */
  static String purge(Asset asset, long at) {
    if (asset.shown == null) return NO_CHANGE;
    asset.clear(at);
    return APPLIED;
  }
}
