package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Late, doubtful and refused reports of a bucket, by agent, since they were last told:
 * domain/lateness.py.
 */
final class Lateness {
  /** What becomes of a report; place: of how many there are, among the figures of an agent. */
  enum Kind {
    STALE(0), LATE(1), SILENT(2), RARE(3), REFUSED(5), DOUBTFUL(6), DETAIL(7), FORWARDED(9);

    final int place;

    Kind(int place) {
      this.place = place;
    }
  }

  /** What is told of an agent. age: the least of those stale and silent; ahead: the least. */
  private static final List<String> FIGURES = List.of("stale", "late", "silent", "rare", "age",
      "refused", "doubtful", "detail", "ahead", "forwarded");
  private static final int AGE = 4, AHEAD = 8;
  private static final int MAX_AGENTS = 50;

  /** By agent its figures. */
  private final Map<String, long[]> held = new TreeMap<>(Names::compare);

  boolean isEmpty() {
    return held.isEmpty();
  }

  /** Counts one more of an agent's. */
  void add(String agent, Kind kind) {
    add(agent, kind, 0, 0);
  }

  /** Counts one more of an agent's, of this age or so far ahead, ms. */
  void add(String agent, Kind kind, long age, long ahead) {
    long[] figures = figures(agent);
    if (kind == Kind.STALE || kind == Kind.SILENT) {
      boolean first = figures[Kind.STALE.place] == 0 && figures[Kind.SILENT.place] == 0;
      figures[AGE] = first ? age : Math.min(figures[AGE], age);
    }
    if (ahead > 0) figures[AHEAD] = figures[AHEAD] == 0 ? ahead : Math.min(figures[AHEAD], ahead);
    figures[kind.place]++;
  }

  private long[] figures(String agent) {
    long[] figures = held.get(agent);
    if (figures != null) return figures;
    String name = held.size() < MAX_AGENTS ? agent : "";
    return held.computeIfAbsent(name, each -> new long[FIGURES.size()]);
  }

  private long total(Kind kind) {
    return held.values().stream().mapToLong(figures -> figures[kind.place]).sum();
  }

  /** Returns all of it as JSON: of each agent its name and its figures. */
  String rows() {
    StringBuilder out = new StringBuilder("[");
    held.forEach((agent, figures) -> {
      if (out.length() > 1) out.append(',');
      Json.write(out.append('['), agent);
      for (long figure : figures) out.append(',').append(figure);
      out.append(']');
    });
    return out.append(']').toString();
  }

  void clear() {
    held.clear();
  }

  /** The totals and the agents, as fields of a heartbeat; nothing where there is nothing. */
  void tell(StringBuilder json) {
    json.append(",\"stale\":").append(total(Kind.STALE));
    if (held.isEmpty()) return;
    json.append(",\"late\":").append(total(Kind.LATE));
    json.append(",\"silent\":").append(total(Kind.SILENT)).append(",\"agents\":[");
    held.forEach((agent, figures) -> {
      if (json.charAt(json.length() - 1) != '[') json.append(',');
      Json.write(json.append("{\"agent\":"), agent);
      for (int i = 0; i < figures.length; i++) {
        json.append(",\"").append(FIGURES.get(i)).append("\":").append(figures[i]);
      }
      json.append('}');
    });
    json.append(']');
  }

  /**
   * Takes in what `rows` wrote; an earlier release counted less. Raises IllegalStateException for
   * anything else.
   */
  void load(String json) {
    try {
      for (Object entry : (List<?>) Json.read(json.getBytes(StandardCharsets.UTF_8)).value()) {
        List<?> fields = (List<?>) entry;
        long[] figures = new long[FIGURES.size()];
        for (int i = 1; i < fields.size(); i++) figures[i - 1] = (Long) fields.get(i);
        held.put((String) fields.get(0), figures);
      }
    } catch (Json.Bad | ClassCastException error) {
      throw new IllegalStateException("UnreadableAsset: late reports " + json, error);
    }
  }
}
