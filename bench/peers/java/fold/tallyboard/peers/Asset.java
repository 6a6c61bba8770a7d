package tallyboard.peers;

import java.util.ArrayList;
import java.util.List;

/** What is remembered of one asset. Times in ms. */
public final class Asset {
  /**
   * An agent's latest report. silent: since when, NONE while it is live; turned: when it said worse
   * than before, the last time within a vote's lifetime, or NONE; flapping: for the second time.
   */
  public record Vote(String agent, int state, long reportedAt, long time, long offset, long expires,
      long silent, long turned, boolean flapping) {
    boolean live() {
      return silent == NONE;
    }

    Vote silentSince(long at) {
      return new Vote(agent, state, reportedAt, time, offset, expires, at, turned, flapping);
    }

    Vote calm() {
      return new Vote(agent, state, reportedAt, time, offset, expires, silent, NONE, false);
    }
  }

  public static final long NONE = 0;

  /** Ranks in Fold.STATES; UNKNOWN before the first report. */
  public int state = Fold.UNKNOWN, previous = Fold.UNKNOWN;
  public long since, emittedAt, offset, step;
  /** When a timer looks at it next; NONE: none is set. */
  public long timer = NONE;
  /** In the order of their agents. */
  public List<Vote> votes = new ArrayList<>(5);

  int place(String agent) {
    int place = 0;
    while (place < votes.size() && votes.get(place).agent.compareTo(agent) < 0) place++;
    return place;
  }

  Vote vote(String agent) {
    int place = place(agent);
    return place < votes.size() && votes.get(place).agent.equals(agent) ? votes.get(place) : null;
  }

  void put(Vote vote) {
    int place = place(vote.agent);
    boolean there = place < votes.size() && votes.get(place).agent.equals(vote.agent);
    if (there) votes.set(place, vote);
    else votes.add(place, vote);
  }

  int count(int state, boolean live) {
    int count = 0;
    for (Vote vote : votes) if (vote.state == state && vote.live() == live) count++;
    return count;
  }

  int live() {
    int count = 0;
    for (Vote vote : votes) if (vote.live()) count++;
    return count;
  }
}
