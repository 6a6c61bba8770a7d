package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The agents of a bucket whose votes count nothing, by name: domain/mutes.py. */
final class Mutes {
  /** Until: ms, or NONE until taken back. */
  record Mute(String agent, long until, String user, String reason, String id) {}

  private static final int MAX_MUTED = 100;

  private final Map<String, Mute> held = new TreeMap<>(Names::compare);

  boolean isEmpty() {
    return held.isEmpty();
  }

  boolean hasRoom(String agent) {
    return held.size() < MAX_MUTED || held.containsKey(agent);
  }

  boolean contains(String agent) {
    return held.containsKey(agent);
  }

  void put(Mute mute) {
    held.put(mute.agent, mute);
  }

  void remove(String agent) {
    held.remove(agent);
  }

  /** Returns the mark of a muted agent's votes, or null. */
  Asset.Muted mark(String agent) {
    Mute mute = held.get(agent);
    return mute == null ? null : new Asset.Muted(mute.until, mute.user);
  }

  /** Returns what an agent's vote weighs: 0 while it is muted. */
  long weight(Rule rule, String agent) {
    return contains(agent) ? 0 : rule.weight(agent);
  }

  /** Forgets those that are over at `clock`. */
  void dropEnded(long clock) {
    held.values().removeIf(mute -> mute.until != Rule.NONE && mute.until <= clock);
  }

  /** Returns all of them, as heartbeats tell them. */
  String json() {
    StringBuilder out = new StringBuilder("[");
    for (Mute mute : held.values()) {
      if (out.length() > 1) out.append(',');
      Json.write(out.append("{\"agent\":"), mute.agent);
      out.append(",\"until\":").append(mute.until == Rule.NONE ? "null" : mute.until);
      Json.write(out.append(",\"user\":"), mute.user);
      Json.write(out.append(",\"reason\":"), mute.reason);
      Json.write(out.append(",\"id\":"), mute.id);
      out.append('}');
    }
    return out.append(']').toString();
  }

  /** Takes in what `json` wrote. Raises IllegalStateException for anything else. */
  void load(String json) {
    try {
      for (Object entry : (List<?>) Json.read(json.getBytes(StandardCharsets.UTF_8)).value()) {
        Map<?, ?> plain = (Map<?, ?>) entry;
        Object until = plain.get("until");
        put(new Mute((String) plain.get("agent"), until == null ? Rule.NONE : (Long) until,
            (String) plain.get("user"), (String) plain.get("reason"), (String) plain.get("id")));
      }
    } catch (Json.Bad | ClassCastException error) {
      throw new IllegalStateException("UnreadableAsset: mutes " + json, error);
    }
  }
}
