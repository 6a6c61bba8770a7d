package tallyboard.kernel;

import java.util.Arrays;
import java.util.Comparator;
import java.util.function.Predicate;
import tallyboard.kernel.Asset.Override;
import tallyboard.kernel.Asset.Task;

/** Tasks of an asset: scheduled by commands or by the scenario, run by its timers: domain/tasks.py. */
final class Tasks {
  /** The owner of the tasks that the scenario starts. */
  static final String RULE_OWNER = "the rule";
  static final String NOT_MET = "condition not met";
  static final long ENDLESS = 4_611_686_018_427_387_904L;
  private static final long MAX_TASKS = 32;
  private static final long NONE = Rule.NONE;

  private Tasks() {}

  // ---- commands ----

  /** Returns why a task cannot be scheduled or cancelled at `clock` ms, or null where it can be. */
  static String refusal(Rule rule, Source.Command command, Asset asset, long clock) {
    if (command.kind().equals("cancel") && find(asset, command.task()) == null) {
      return "no such task";
    }
    Source.Schedule order = command.schedule();
    if (order == null || find(asset, command.id()) != null) return null;
    if (asset.shown == null) return "no such asset";
    if (!isKnown(rule, command.state(), order.condition())) return "unknown state";
    long first = firstRun(order, clock);
    if (first <= clock) return "the time is in the past";
    if (command.until() != NONE && command.until() < first) {
      return "the end is before the first run";
    }
    long own = Arrays.stream(asset.tasks).filter(task -> !isOfRule(task)).count();
    if (own >= MAX_TASKS) return "too many tasks";
    return null;
  }

  /** Gives the asset the task that a command schedules; returns the outcome. */
  static String schedule(Source.Command command, Asset asset, long clock) {
    Source.Schedule order = command.schedule();
    if (find(asset, command.id()) != null) return Commands.NO_CHANGE;
    put(asset, new Task(command.id(), order.action(), command.user(), command.reason(),
        firstRun(order, clock), order.action().equals("set") ? command.state() : null,
        order.condition(), order.every(), command.until(), order.times(), null, null, NONE, null));
    return Commands.APPLIED;
  }

  /** Takes the task away that a command names; returns the outcome. */
  static String cancel(Source.Command command, Asset asset) {
    keep(asset, task -> !task.id().equals(command.task()));
    return Commands.APPLIED;
  }

  private static long firstRun(Source.Schedule order, long clock) {
    if (order.at() != NONE) return order.at();
    return clock + (order.after() != NONE ? order.after() : order.every());
  }

  /** Returns whether a task may set this state and wait for that one. */
  private static boolean isKnown(Rule rule, String state, String condition) {
    return (state == null || rule.knows(state))
        && (condition == null || condition.equals(Asset.UNKNOWN) || rule.knows(condition));
  }

  static Task find(Asset asset, String id) {
    for (Task task : asset.tasks) {
      if (task.id().equals(id)) return task;
    }
    return null;
  }

  private static boolean isOfRule(Task task) {
    return task.user().equals(RULE_OWNER);
  }

  private static void put(Asset asset, Task task) {
    Task[] others = without(asset, each -> !each.id().equals(task.id()));
    Task[] grown = Arrays.copyOf(others, others.length + 1);
    grown[others.length] = task;
    Arrays.sort(grown, Comparator.comparing(Task::id));
    asset.tasks = grown;
  }

  private static void keep(Asset asset, Predicate<Task> kept) {
    if (asset.tasks.length > 0) asset.tasks = without(asset, kept);
  }

  private static Task[] without(Asset asset, Predicate<Task> kept) {
    Task[] left = Arrays.stream(asset.tasks).filter(kept).toArray(Task[]::new);
    return left.length == 0 ? Asset.NO_TASKS : left;
  }

  // ---- tasks of the scenario ----

  /** Ends the tasks of the state that the asset has left, and begins those of the one it shows. */
  static void enter(Rule rule, Asset asset, long at) {
    keep(asset, task -> task.within() == null || task.within().equals(asset.shown));
    for (Rule.TaskRule each : rule.tasks) {
      if (asset.shown != null && asset.shown.equals(each.on())) put(asset, begun(rule, each, at));
    }
  }

  /** Begins the tasks of a report of `state`, unless they are under way. */
  static void reported(Rule rule, Asset asset, String state, long at) {
    for (Rule.TaskRule each : rule.tasks) {
      if (state.equals(each.onReport()) && find(asset, each.id()) == null) {
        put(asset, begun(rule, each, at));
      }
    }
  }

  /** Puts the tasks under another rule: sets aside what it cannot run, and resumes what it can. */
  static void adopt(Rule rule, Rule former, Asset asset, long at) {
    if (asset.tasks.length > 0) {
      asset.tasks = Arrays.stream(asset.tasks).map(task -> task.setAside(aside(rule, task)))
          .toArray(Task[]::new);
    }
    if (!asset.shown.equals(asset.toShow())) return;
    for (Rule.TaskRule each : rule.tasks) {
      if (asset.shown.equals(each.on()) && !former.startsTask(each.id())
          && find(asset, each.id()) == null) {
        put(asset, begun(rule, each, at));
      }
    }
  }

  private static Task begun(Rule rule, Rule.TaskRule each, long at) {
    return new Task(each.id(), each.action(), RULE_OWNER, "", at + each.delay(), each.state(),
        each.condition(), each.every(), NONE, each.times(), each.within(), null, NONE,
        rule.taskFault(each));
  }

  /** Returns why a task does not run under this rule, or null. */
  private static String aside(Rule rule, Task task) {
    if (isOfRule(task) && !rule.startsTask(task.id())) return "the scenario has no such task";
    if (!isKnown(rule, task.state(), null)) return noState(task.state());
    if (!isKnown(rule, null, task.condition())) return noState(task.condition());
    return isOfRule(task) ? rule.taskFault(task.id()) : null;
  }

  private static String noState(String state) {
    return String.join(" ", "the scenario has no state", state);
  }

  // ---- runs ----

  /** Returns the task that runs first. */
  static Task dueFirst(Asset asset) {
    Task first = null;
    for (Task task : asset.tasks) { // in the order of their ids
      if (task.runs() && (first == null || task.due() < first.due())) first = task;
    }
    return first;
  }

  /** Returns whether a run of the task would now change more than that it has run. */
  static boolean hasEffect(Asset asset, Task task) {
    if (!isMet(asset, task)) return false;
    switch (task.action()) {
      case "set":
        return asset.override == null || !asset.override.samePin(pinOf(task, 0));
      case "release":
        return asset.override != null || asset.vote(Names.USER + task.user()) != null;
      case "purge":
        return true;
      default:
        return false;
    }
  }

  /** Carries out a task that has an effect, as of `at` ms. */
  static void run(Rule rule, Asset asset, Task task, long at) {
    note(asset, task, 1, Commands.APPLIED, at);
    switch (task.action()) {
      case "set":
        asset.override = pinOf(task, at);
        break;
      case "release":
        Commands.release(rule, asset, task.user(), at);
        break;
      case "purge":
        asset.clear(at);
        break;
      default:
        throw new IllegalArgumentException("task: " + task.action());
    }
  }

  /** Returns the outcome of a run that has no effect. */
  static String idleOutcome(Asset asset, Task task) {
    if (!isMet(asset, task)) return NOT_MET;
    boolean changing = task.action().equals("set") || task.action().equals("release");
    return changing ? Commands.NO_CHANGE : Commands.APPLIED;
  }

  /** Keeps of a task that it has run so often, the last time not before `at`, and how. */
  static void note(Asset asset, Task task, long runs, String outcome, long at) {
    long every = Math.max(0, task.every());
    long last = task.due() + (runs - 1) * every;
    put(asset, task.after(runs > following(task) ? NONE : last + every,
        task.times() == NONE ? NONE : task.times() - runs, outcome, Math.max(at, last)));
  }

  /** Returns how many runs may come after the next one. */
  static long following(Task task) {
    if (task.every() == NONE) return 0;
    long byTimes = task.times() == NONE ? ENDLESS : task.times() - 1;
    long byEnd = task.until() == NONE ? ENDLESS : (task.until() - task.due()) / task.every();
    return Math.min(byTimes, byEnd);
  }

  /** Takes the tasks away that run no more. */
  static void dropFinished(Asset asset) {
    for (Task task : asset.tasks) {
      if (task.due() == NONE) {
        keep(asset, each -> each.due() != NONE);
        return;
      }
    }
  }

  private static boolean isMet(Asset asset, Task task) {
    return task.condition() == null || task.condition().equals(asset.shown);
  }

  private static Override pinOf(Task task, long since) {
    return new Override(task.state(), NONE, task.user(), task.reason(), task.id(), since, null);
  }
}
