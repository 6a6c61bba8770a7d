package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Reports of a bucket that came late, by agent, since they were last told: domain/lateness.py. */
final class Lateness {
  /** Those of one agent; age: the least of those stale and silent, ms. */
  private static final class Row {
    long stale;
    long late;
    long silent;
    long rare;
    long age;

    void aged(long age) {
      this.age = stale == 0 && silent == 0 ? age : Math.min(this.age, age);
    }
  }

  private static final int MAX_AGENTS = 50;

  private final Map<String, Row> rows = new TreeMap<>(Names::compare);

  boolean isEmpty() {
    return rows.isEmpty();
  }

  private Row row(String agent) {
    Row row = rows.get(agent);
    if (row != null) return row;
    return rows.computeIfAbsent(rows.size() < MAX_AGENTS ? agent : "", name -> new Row());
  }

  /** One of an agent's was older than the scenario takes. */
  void stale(String agent, long age) {
    Row row = row(agent);
    row.aged(age);
    row.stale++;
  }

  /** One of an agent's was older than a vote's lifetime. */
  void silent(String agent, long age) {
    Row row = row(agent);
    row.aged(age);
    row.silent++;
  }

  /** One of an agent's was older than its newest, or than the asset's purge. */
  void late(String agent) {
    row(agent).late++;
  }

  /** One of an agent's came when its vote had fallen silent. */
  void rare(String agent) {
    row(agent).rare++;
  }

  void clear() {
    rows.clear();
  }

  /** The totals and the agents, as fields of a heartbeat; nothing where there is nothing. */
  void tell(StringBuilder json) {
    long stale = 0;
    long late = 0;
    long silent = 0;
    for (Row row : rows.values()) {
      stale += row.stale;
      late += row.late;
      silent += row.silent;
    }
    json.append(",\"stale\":").append(stale);
    if (rows.isEmpty()) return;
    json.append(",\"late\":").append(late).append(",\"silent\":").append(silent);
    json.append(",\"agents\":[");
    rows.forEach((agent, row) -> {
      if (json.charAt(json.length() - 1) != '[') json.append(',');
      Json.write(json.append("{\"agent\":"), agent);
      json.append(",\"stale\":").append(row.stale).append(",\"late\":").append(row.late);
      json.append(",\"silent\":").append(row.silent).append(",\"rare\":").append(row.rare);
      json.append(",\"age\":").append(row.age).append('}');
    });
    json.append(']');
  }

  /** Returns all of it: of each agent its name, stale, late, silent, rare and age. */
  String json() {
    StringBuilder out = new StringBuilder("[");
    rows.forEach((agent, row) -> {
      if (out.length() > 1) out.append(',');
      Json.write(out.append('['), agent);
      out.append(',').append(row.stale).append(',').append(row.late).append(',').append(row.silent);
      out.append(',').append(row.rare).append(',').append(row.age).append(']');
    });
    return out.append(']').toString();
  }

  /** Takes in what `json` wrote. Raises IllegalStateException for anything else. */
  void load(String json) {
    try {
      for (Object entry : (List<?>) Json.read(json.getBytes(StandardCharsets.UTF_8)).value()) {
        List<?> fields = (List<?>) entry;
        Row row = new Row();
        row.stale = (Long) fields.get(1);
        row.late = (Long) fields.get(2);
        row.silent = (Long) fields.get(3);
        row.rare = (Long) fields.get(4);
        row.age = (Long) fields.get(5);
        rows.put((String) fields.get(0), row);
      }
    } catch (Json.Bad | ClassCastException error) {
      throw new IllegalStateException("UnreadableAsset: late reports " + json, error);
    }
  }
}
