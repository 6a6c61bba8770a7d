package tallyboard.peers;

import java.util.Iterator;
import java.util.List;
import java.util.ListIterator;

/**
 * The majority of the agents' latest reports, which expire: what the product's kernel makes of the
 * scenario of the benches. A vote that expires is kept as silent: it moves no state, and counts
 * against an all-clear until it is forgotten. An agent that turns to the worse twice within the
 * lifetime of a vote disputes an all-clear for a lifetime more.
 */
public final class Fold {
  /** The worst first. */
  public static final List<String> STATES = List.of("attack", "clear");
  public static final int UNKNOWN = -1;
  static final int ATTACK = 0;
  private static final int CLEAR = 1;
  private static final long REFRESH_MS = 30_000;
  private static final long LEAST_FORGET_MS = 900_000;

  /** Why a record is written. user: of a command alone, as `command`. */
  public record Cause(String type, int partition, long offset, long time, String agent,
      String command) {}

  /** Takes what is to be written. */
  public interface Emit {
    void emit(Asset asset, Cause cause);
  }

  final long lifetime;
  private final long forgetAfter;

  public Fold(long lifetimeMs) {
    lifetime = lifetimeMs;
    forgetAfter = Math.max(3 * lifetimeMs, LEAST_FORGET_MS);
  }

  /**
   * Applies a record that was appended at `time`, and before it what is due. Returns whether the
   * asset is to be stored.
   */
  public boolean apply(Asset asset, Report report, int partition, long offset, long time,
      Emit out) {
    boolean changed = fire(asset, partition, time, out);
    if (report.isCommand()) return answer(asset, report, partition, offset, time, out);
    long reportedAt = report.reportedAt() == Report.NONE ? time : report.reportedAt();
    int state = STATES.indexOf(report.state());
    Asset.Vote before = asset.vote(report.agent());
    if (state < 0 || !counts(before, reportedAt, time)) return changed;
    asset.put(vote(report.agent(), state, before, reportedAt, offset, time));
    int shown = asset.state;
    move(asset, state, time);
    asset.offset = offset;
    asset.step = 0;
    boolean visible = before == null || before.state() != state || !before.live();
    if (visible || asset.state != shown || time - asset.emittedAt >= REFRESH_MS) {
      asset.emittedAt = time;
      out.emit(asset, new Cause("report", partition, offset, time, report.agent(), null));
    }
    return true;
  }

  /** Whether it is neither older than its agent's newest nor than votes live. */
  private boolean counts(Asset.Vote before, long reportedAt, long time) {
    if (time - reportedAt >= lifetime) return false;
    if (before == null) return true;
    return Math.min(reportedAt, time) >= Math.min(before.reportedAt(), before.time());
  }

  /** Returns what a report becomes: it flaps if it turns to the worse again within a lifetime. */
  private Asset.Vote vote(String agent, int state, Asset.Vote before, long reportedAt, long offset,
      long time) {
    boolean worse = before != null && state < before.state();
    boolean lately = before != null && before.turned() != Asset.NONE
        && before.turned() + lifetime > time;
    long turned = worse ? time : lately ? before.turned() : Asset.NONE;
    return new Asset.Vote(agent, state, reportedAt, time, offset,
        Math.min(reportedAt, time) + lifetime, Asset.NONE, turned,
        lately && (worse || before.flapping()));
  }

  private boolean answer(Asset asset, Report command, int partition, long offset, long time,
      Emit out) {
    asset.state = STATES.indexOf(command.state());
    asset.since = asset.emittedAt = time;
    asset.offset = offset;
    asset.step = 0;
    out.emit(asset, new Cause("set", partition, offset, time, null, command.id()));
    return true;
  }

  private static void move(Asset asset, int said, long time) {
    int attack = asset.count(ATTACK, true);
    int clear = asset.count(CLEAR, true);
    int next = asset.state;
    if (2 * attack > attack + clear) next = ATTACK;
    else if (said == CLEAR && 2 * clear > attack + clear + asset.count(ATTACK, false)) next = CLEAR;
    if (next == UNKNOWN) next = said;
    if (next == asset.state) return;
    asset.previous = asset.state;
    asset.state = next;
    asset.since = time;
  }

  /** Applies what is due until `now`; returns whether anything was. */
  public boolean fire(Asset asset, int partition, long now, Emit out) {
    boolean fired = false;
    for (long due = due(asset); due <= now; due = due(asset)) {
      boolean expired = expire(asset, due);
      boolean calmed = calm(asset, due);
      String type = expired ? "vote-expiry" : calmed ? "doubt-end" : forget(asset, due);
      asset.step++;
      asset.emittedAt = due;
      out.emit(asset, new Cause(type, partition, asset.offset, due, null, null));
      fired = true;
    }
    return fired;
  }

  /** Returns when something of this asset is due next; Long.MAX_VALUE: nothing is. */
  public long due(Asset asset) {
    long due = Long.MAX_VALUE;
    for (Asset.Vote vote : asset.votes) {
      due = Math.min(due, vote.live() ? vote.expires() : vote.silent() + forgetAfter);
      if (vote.flapping()) due = Math.min(due, vote.turned() + lifetime);
    }
    return due;
  }

  private static boolean expire(Asset asset, long due) {
    boolean any = false;
    for (ListIterator<Asset.Vote> places = asset.votes.listIterator(); places.hasNext(); ) {
      Asset.Vote vote = places.next();
      if (!vote.live() || vote.expires() > due) continue;
      places.set(vote.silentSince(due));
      any = true;
    }
    return any;
  }

  /** Ends what counts of votes that flapped; returns whether anything did. */
  private boolean calm(Asset asset, long due) {
    boolean any = false;
    for (ListIterator<Asset.Vote> places = asset.votes.listIterator(); places.hasNext(); ) {
      Asset.Vote vote = places.next();
      if (!vote.flapping() || vote.turned() + lifetime > due) continue;
      places.set(vote.calm());
      any = true;
    }
    return any;
  }

  private String forget(Asset asset, long due) {
    for (Iterator<Asset.Vote> places = asset.votes.iterator(); places.hasNext(); ) {
      Asset.Vote vote = places.next();
      if (!vote.live() && vote.silent() + forgetAfter <= due) places.remove();
    }
    return "vote-forgotten";
  }

  // ---- marks ----

  /** Returns why live votes do not support the state, or null. */
  static String unconfirmed(Asset asset) {
    if (asset.live() == 0) return "0 of 1 voters";
    if (asset.state == ATTACK && asset.count(ATTACK, true) == 0) return "nobody says it is this bad";
    if (asset.state == CLEAR && asset.count(CLEAR, true) == 0) return "nobody says it is this good";
    return null;
  }

  /** Returns the worst state that a vote says or said, flapping, where that is worse; or null. */
  static String disputed(Asset asset) {
    if (asset.state != CLEAR) return null;
    for (Asset.Vote vote : asset.votes) {
      if (vote.state() == ATTACK || vote.flapping()) return STATES.get(ATTACK);
    }
    return null;
  }
}
