package tallyboard.kernel;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/**
 * What the fold remembers of one asset, and what is due for it: domain/asset.py. Times in ms of the
 * bucket's clock. Votes, pending, override and answers are replaced, never changed, so that what was
 * there before an event can be kept by reference.
 */
final class Asset {
  /** Who muted a vote's agent, and until when, NONE: until taken back. */
  record Muted(long until, String user) {}

  /** Muted: null for a vote that counts. */
  record Vote(String agent, String state, long reportedAt, long time, long offset, long expires,
      long weight, String detail, Muted muted) {
    /** Whether readers see the same of both. */
    boolean shownAs(Vote other) {
      return weight == other.weight && state.equals(other.state) && agent.equals(other.agent)
          && Objects.equals(muted, other.muted);
    }

    Vote marked(Muted mark, long weight) {
      return new Vote(agent, state, reportedAt, time, offset, expires, weight, detail, mark);
    }
  }

  record Pending(String state, long since, long due) {}

  record Override(String state, long until, String user, String reason, String command, long since,
      String underlying) {
    Override over(String state) {
      return new Override(this.state, until, user, reason, command, since, state);
    }

    boolean samePin(Override other) {
      return until == other.until && state.equals(other.state) && user.equals(other.user)
          && reason.equals(other.reason);
    }
  }

  record Answer(String command, String outcome) {}

  /** Something due, of all that is due for an asset the first. */
  record Due(long time, int order, String agent) implements Comparable<Due> {
    @java.lang.Override
    public int compareTo(Due other) {
      if (time != other.time) return Long.compare(time, other.time);
      return order != other.order ? order - other.order : Names.compare(agent, other.agent);
    }
  }

  static final int OVERRIDE_END = 0, VOTE_EXPIRY = 1, MUTE_END = 2, HOLD = 3, REMINDER = 4,
      PURGE_AFTER = 5, FORGET = 6;
  static final List<String> DUE_TYPES = List.of("override-end", "vote-expiry", "mute-end", "hold",
      "reminder", "purge-after", "forget");
  static final long NONE = Rule.NONE;
  private static final int ANSWERS_KEPT = 16;
  private static final long ANSWERS_MEMORY = 3_600_000;
  private static final Vote[] NO_VOTES = {};
  private static final Answer[] NO_ANSWERS = {};

  String state;
  String shown;
  String previous;
  long since;
  boolean unconfirmed;
  Vote[] votes = NO_VOTES;
  Pending pending;
  Override override;
  long offset = -1;
  long step;
  long changedOffset = -1;
  long changedStep;
  long reminded;
  long emittedAt;
  Answer[] answers = NO_ANSWERS;
  long forgetAt = NONE;
  /** When the index of dues looks at this asset again: at its next due, or before. */
  long noted = NONE;

  // ---- votes, in the order of their agents ----

  private int place(String agent) {
    int low = 0;
    int high = votes.length;
    while (low < high) {
      int middle = (low + high) / 2;
      if (Names.compare(votes[middle].agent, agent) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  Vote vote(String agent) {
    int place = place(agent);
    return place < votes.length && votes[place].agent.equals(agent) ? votes[place] : null;
  }

  void put(Vote vote) {
    int place = place(vote.agent);
    boolean there = place < votes.length && votes[place].agent.equals(vote.agent);
    Vote[] found = new Vote[there ? votes.length : votes.length + 1];
    System.arraycopy(votes, 0, found, 0, place);
    System.arraycopy(votes, there ? place + 1 : place, found, place + 1, found.length - place - 1);
    found[place] = vote;
    votes = found;
  }

  /** Takes out an agent's vote; returns whether there was one. */
  boolean withdraw(String agent) {
    Vote[] left = Arrays.stream(votes).filter(v -> !v.agent.equals(agent)).toArray(Vote[]::new);
    boolean found = left.length < votes.length;
    votes = left;
    return found;
  }

  // ---- answers ----

  String answerTo(String command) {
    for (Answer answer : answers) {
      if (answer.command.equals(command)) return answer.outcome;
    }
    return null;
  }

  void remember(Answer answer) {
    if (answerTo(answer.command) != null) return;
    int kept = Math.min(answers.length, ANSWERS_KEPT - 1);
    Answer[] found = Arrays.copyOfRange(answers, answers.length - kept, answers.length + 1);
    found[kept] = answer;
    answers = found;
  }

  /** What is left after a purge at `at`: answers and place. */
  Asset gone(long at) {
    Asset left = new Asset();
    left.offset = left.changedOffset = offset;
    left.step = left.changedStep = step;
    left.answers = answers;
    left.forgetAt = at + ANSWERS_MEMORY;
    left.noted = noted;
    return left;
  }

  void clear() {
    state = null;
    pending = null;
    override = null;
    clearVotes();
  }

  void clearVotes() {
    votes = NO_VOTES;
  }

  // ---- dues ----

  /** What is due first, or null. */
  Due nextDue(Rule rule) {
    if (shown == null) return forgetAt == NONE ? null : new Due(forgetAt, FORGET, "");
    Due first = nextBesidesReminder(rule);
    long every = rule.reminder(shown);
    return every == NONE ? first : earlier(first, new Due(reminded + every, REMINDER, ""));
  }

  /** Of an asset that exists, what is due first of all but the reminder. */
  Due nextBesidesReminder(Rule rule) {
    Due first = null;
    if (override != null && override.until != NONE) first = new Due(override.until, OVERRIDE_END, "");
    if (rule.voteLifetime != NONE && votes.length > 0) first = earlier(first, firstExpiry());
    for (Vote vote : votes) {
      if (vote.muted == null || vote.muted.until == NONE) continue;
      first = earlier(first, new Due(vote.muted.until, MUTE_END, vote.agent));
    }
    if (pending != null) first = earlier(first, new Due(pending.due, HOLD, ""));
    long delay = rule.purgeDelay(shown);
    return delay == NONE ? first : earlier(first, new Due(since + delay, PURGE_AFTER, ""));
  }

  private static Due earlier(Due one, Due other) {
    return one == null || other.compareTo(one) < 0 ? other : one;
  }

  private Due firstExpiry() {
    Vote first = votes[0];
    for (Vote vote : votes) {
      if (Math.max(0, vote.expires) < Math.max(0, first.expires)) first = vote;
    }
    return new Due(Math.max(0, first.expires), VOTE_EXPIRY, first.agent);
  }

  // ---- before and after an event ----

  /** What readers see of an asset, kept to be compared. */
  record View(String shown, Pending pending, Override override, boolean unconfirmed, Vote[] votes) {
    boolean standsIn(Asset asset) {
      return Objects.equals(shown, asset.shown) && Objects.equals(pending, asset.pending)
          && Objects.equals(override, asset.override);
    }

    boolean differs(Asset asset) {
      return unconfirmed != asset.unconfirmed || !standsIn(asset) || votesDiffer(asset.votes);
    }

    private boolean votesDiffer(Vote[] now) {
      if (votes == now) return false;
      if (votes.length != now.length) return true;
      for (int i = 0; i < now.length; i++) {
        if (votes[i] != now[i] && !votes[i].shownAs(now[i])) return true;
      }
      return false;
    }
  }

  View view() {
    return new View(shown, pending, override, unconfirmed, votes);
  }
}
