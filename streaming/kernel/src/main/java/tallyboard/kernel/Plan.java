package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the driver tells of the buckets, as JSON: Plan in streaming/fold/processor.py. */
record Plan(String prefix, long epoch, boolean realTime, Map<String, Object> partitions,
    Map<String, Object> rules, Set<String> functions, Map<String, Object> seeds,
    Map<String, Object> quiet, Map<String, Object> bounds, Map<String, Object> logs, String keys,
    String job) {
  /** Raises IllegalArgumentException for anything but the driver's JSON. */
  @SuppressWarnings("unchecked")
  static Plan parse(String json) {
    try {
      Map<String, Object> data =
          (Map<String, Object>) Json.read(json.getBytes(StandardCharsets.UTF_8)).value();
      return new Plan((String) data.get("prefix"), (Long) data.get("epoch"),
          (Boolean) data.get("real_time"), (Map<String, Object>) data.get("partitions"),
          (Map<String, Object>) data.get("rules"),
          Set.copyOf((List<String>) (List<?>) data.get("functions")),
          (Map<String, Object>) data.get("seeds"), (Map<String, Object>) data.get("quiet"),
          (Map<String, Object>) data.getOrDefault("bounds", Map.of()),
          (Map<String, Object>) data.getOrDefault("logs", Map.of()), (String) data.get("keys"),
          (String) data.getOrDefault("job", ""));
    } catch (Json.Bad error) {
      throw new IllegalArgumentException(json, error);
    }
  }

  int partitionsOf(String scenario) {
    return ((Long) partitions.get(scenario)).intValue();
  }

  /** Whose signatures count in the log of a scenario. */
  Trust trustOf(String scenario) {
    return new Trust(prefix + scenario + ".reports", keys);
  }

  /** Returns the first rule of a bucket: before its first scenario record. */
  String ruleOf(String bucket) {
    return (String) rules.get(bucket);
  }

  /** Returns the file of the state that a bucket begins with, or null. */
  String seedOf(String bucket) {
    return (String) seeds.get(bucket);
  }

  /** Whether any bucket begins with a file that Hadoop is to open. */
  boolean hasRemoteSeeds() {
    return seeds.values().stream().anyMatch(path -> ((String) path).contains("://"));
  }

  /** The bounds on append times of a bucket: pairs of a time and the offset before which it holds. */
  @SuppressWarnings("unchecked")
  List<List<Object>> boundsOf(String bucket) {
    return bounds.get(bucket) instanceof List<?> held ? (List<List<Object>>) held : List.of();
  }

  /** The id of a source topic, empty where it is not known. */
  String logOf(String topic) {
    return logs.get(topic) instanceof String id ? id : "";
  }

  /** The last offset of a bucket whose outcome readers have seen in an earlier epoch, or -1. */
  long quietOf(String bucket) {
    return quiet.get(bucket) instanceof Long offset ? offset : -1;
  }
}
