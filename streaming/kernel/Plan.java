package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the driver tells of the buckets, as JSON: see streaming/kernel.py. */
record Plan(String prefix, long epoch, boolean realTime, Map<String, Object> partitions,
    Map<String, Object> rules, Set<String> functions) {
  /** Raises IllegalArgumentException for anything but the driver's JSON. */
  @SuppressWarnings("unchecked")
  static Plan parse(String json) {
    try {
      Map<String, Object> data =
          (Map<String, Object>) Json.read(json.getBytes(StandardCharsets.UTF_8)).value();
      return new Plan((String) data.get("prefix"), (Long) data.get("epoch"),
          (Boolean) data.get("real_time"), (Map<String, Object>) data.get("partitions"),
          (Map<String, Object>) data.get("rules"),
          Set.copyOf((List<String>) (List<?>) data.get("functions")));
    } catch (Json.Bad error) {
      throw new IllegalArgumentException(json, error);
    }
  }

  int partitionsOf(String scenario) {
    return ((Long) partitions.get(scenario)).intValue();
  }

  /** The first rule of a bucket: before its first scenario record. */
  String ruleOf(String bucket) {
    return (String) rules.get(bucket);
  }
}
