package tallyboard.kernel;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import tallyboard.kernel.Asset.Timer;
import tallyboard.kernel.Asset.Muted;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.Task;

/**
 * What happens to an asset when a timer fires: the end of a vote, a pin, a mute or a hold, a task:
 * domain/timers.py.
 */
final class Timers {
  private Timers() {}

  /**
   * Does to an asset what its timer is for, as of `at` ms. What comes again without an effect
   * is a matter of `recur`, the end of an asset's trace of the fold.
   */
  static void carryOut(Rule rule, Asset asset, Timer timer, long at) {
    switch (timer.order()) {
      case Asset.OVERRIDE_END:
        asset.override = null;
        break;
      case Asset.VOTE_EXPIRY:
      case Asset.DOUBT_END:
        Votes.expire(rule, asset, timer.time(), timer.time());
        Doubts.end(asset, timer.time());
        Transitions.judge(rule, asset, at, Evidence.SILENCE);
        break;
      case Asset.VOTE_FORGOTTEN:
        Votes.forget(rule, asset, timer.time());
        Transitions.judge(rule, asset, at, Evidence.SILENCE);
        asset.dropUnknown(at);
        break;
      case Asset.MUTE_END:
        Votes.unmute(rule, asset, timer.time());
        Transitions.judge(rule, asset, at, Evidence.BOTH);
        break;
      case Asset.HOLD:
        Transitions.endWaits(rule, asset, at);
        break;
      case Asset.SCHEDULE:
        Tasks.run(rule, asset, Tasks.dueFirst(asset), at);
        break;
      case Asset.PURGE_AFTER:
        asset.clear(at);
        break;
      default:
        throw new IllegalArgumentException("timer: " + timer.order());
    }
  }

  /** A place in the order in which timers fire; task: the id of a task, else empty. */
  record Place(long time, int order, String task) implements Comparable<Place> {
    @java.lang.Override
    public int compareTo(Place other) {
      return time != other.time ? Long.compare(time, other.time) : compareKind(other);
    }

    int compareKind(Place other) {
      return order != other.order ? order - other.order : task.compareTo(other.task);
    }
  }

  /**
   * What comes without an effect, once or again: reminders, or runs of a task. next: its place;
   * every: ms, NONE for once; following: how many may come after the next one.
   */
  private record Recurrence(Place next, Task task, long every, long following) {
    /** Returns how often it comes before that place. */
    long before(Place place) {
      if (next.compareTo(place) >= 0) return 0;
      if (every == Asset.NONE) return 1;
      long spare = next.compareKind(place) < 0 ? 0 : -1;
      return 1 + Math.min((place.time + spare - next.time) / every, following);
    }

    /** Returns where it comes for the last time before that place, where it does. */
    Place lastBefore(Place place) {
      long count = before(place) - 1;
      return count == 0 ? next : new Place(next.time + count * every, next.order, next.task);
    }
  }

  /** Returns whether a timer has no effect but that readers hear of it. */
  static boolean recurs(Asset asset, Timer timer) {
    if (timer.order() == Asset.SCHEDULE) return !Tasks.hasEffect(asset, Tasks.dueFirst(asset));
    return timer.order() == Asset.REMINDER;
  }

  /**
   * Counts all that recurs up to what is to be emitted; returns the place of that. Of all that
   * comes again by `clock`, before anything else happens to the asset, only the last of each is
   * emitted. at: as of when the timer fires.
   */
  static Place recur(Rule rule, Asset asset, long clock, long at) {
    Place end = endOfRecurrence(rule, asset, clock);
    List<Recurrence> recurring = recurrences(rule, asset);
    Place first = null;
    for (Recurrence each : recurring) {
      if (each.before(end) == 0) continue;
      Place last = each.lastBefore(end);
      if (first == null || last.compareTo(first) < 0) first = last;
    }
    for (Recurrence each : recurring) {
      long count = each.before(first) + (each.next.compareKind(first) == 0 ? 1 : 0);
      asset.step += count;
      if (count > 0) count(asset, each, count, at);
    }
    return first;
  }

  /** Returns where the first timer is that has an effect, at the latest after `clock`. */
  private static Place endOfRecurrence(Rule rule, Asset asset, long clock) {
    Place end = new Place(clock + 1, 0, "");
    Timer other = asset.nextOther(rule);
    if (other != null) end = earlier(end, new Place(other.time(), other.order(), ""));
    for (Task task : asset.tasks) {
      if (task.runs() && Tasks.hasEffect(asset, task)) end = earlier(end, placeOf(task));
    }
    return end;
  }

  private static Place earlier(Place one, Place other) {
    return other.compareTo(one) < 0 ? other : one;
  }

  private static Place placeOf(Task task) {
    return new Place(task.due(), Asset.SCHEDULE, task.id());
  }

  private static List<Recurrence> recurrences(Rule rule, Asset asset) {
    List<Recurrence> recurrences = new ArrayList<>();
    for (Task task : asset.tasks) {
      if (!task.runs() || Tasks.hasEffect(asset, task)) continue;
      recurrences.add(new Recurrence(placeOf(task), task, task.every(), Tasks.following(task)));
    }
    long every = rule.reminder(asset.shown);
    if (every != Asset.NONE) {
      Place next = new Place(asset.reminded + every, Asset.REMINDER, "");
      recurrences.add(new Recurrence(next, null, every, Tasks.ENDLESS));
    }
    return recurrences;
  }

  private static void count(Asset asset, Recurrence each, long count, long at) {
    if (each.task == null) asset.reminded += count * each.every;
    else Tasks.note(asset, each.task, count, Tasks.idleOutcome(asset, each.task), at);
  }

  /** Returns the cause that a timer is, as of `at` ms: whose vote, pin, mute or task it is of. */
  static Cause cause(Rule rule, Asset asset, Timer timer, long at, int partition) {
    if (timer.order() == Asset.SCHEDULE) {
      return causeOfTask(asset, Tasks.dueFirst(asset), at, partition);
    }
    Override pinned = timer.order() == Asset.OVERRIDE_END ? asset.override : null;
    String agent = only(agentsOf(rule, asset, timer));
    Muted muted = agent != null && timer.order() == Asset.MUTE_END ? markOf(asset, agent) : null;
    String user = pinned != null ? pinned.user() : muted != null ? muted.user() : null;
    return new Cause(Asset.TIMER_TYPES.get(timer.order()), partition, asset.offset, at, agent, user,
        pinned == null ? null : pinned.command());
  }

  /** Returns the agents whose votes the timer is of. */
  private static Stream<String> agentsOf(Rule rule, Asset asset, Timer timer) {
    return switch (timer.order()) {
      case Asset.VOTE_EXPIRY -> Votes.expiring(asset, timer.time());
      case Asset.DOUBT_END -> Doubts.ending(asset, timer.time());
      case Asset.VOTE_FORGOTTEN -> Votes.forgotten(rule, asset, timer.time());
      case Asset.MUTE_END -> Votes.unmuted(asset, timer.time());
      default -> Stream.empty();
    };
  }

  private static Muted markOf(Asset asset, String agent) {
    return asset.voice(agent).muted();
  }

  /** Returns the agent if it is one alone, else null. */
  private static String only(Stream<String> agents) {
    String[] found = agents.limit(2).toArray(String[]::new);
    return found.length == 1 ? found[0] : null;
  }

  /** Returns the cause that a reminder or the run of a task is, as of `at` ms. */
  static Cause causeOfRecurrence(Asset asset, Place place, long at, int partition) {
    if (place.order == Asset.SCHEDULE) {
      return causeOfTask(asset, Tasks.find(asset, place.task), at, partition);
    }
    String type = Asset.TIMER_TYPES.get(place.order);
    return new Cause(type, partition, asset.offset, at, null, null, null);
  }

  /** Returns the cause that the run of a task is, as of `at` ms. */
  private static Cause causeOfTask(Asset asset, Task task, long at, int partition) {
    String type = Asset.TIMER_TYPES.get(Asset.SCHEDULE);
    return new Cause(type, partition, asset.offset, at, null, task.user(), task.id());
  }
}
