package tallyboard.kernel;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;

/**
 * The executors of a cluster: which there are, and whether each sees what all share. An executor that
 * does not is given no task, see SharedStorage.
 */
public final class Executors implements SparkPlugin {
  /** What an executor says of the storage; `kind`: one of SharedStorage's, or empty if all is well. */
  private record Finding(String kind, String path, String detail) {}

  private record Executor(String host, int cores) {}

  private static final Map<String, Executor> KNOWN = new ConcurrentHashMap<>();
  private static final Map<String, Finding> FINDINGS = new ConcurrentHashMap<>();

  @Override
  public DriverPlugin driverPlugin() {
    return new Roll();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new SharedStorage();
  }

  /**
   * Returns a row for each executor: its id, its host, its cores, and what it has found: whether it
   * has looked (`yes` or empty), a kind, a path and a detail.
   */
  public static List<String[]> rows() {
    List<String[]> rows = new ArrayList<>();
    KNOWN.forEach((id, one) -> {
      Finding found = FINDINGS.get(id);
      rows.add(found == null
          ? new String[] {id, one.host, String.valueOf(one.cores), "", "", "", ""}
          : new String[] {id, one.host, String.valueOf(one.cores), "yes",
              found.kind, found.path, found.detail});
    });
    return rows;
  }

  /** Keeps the roll: Spark tells of executors that come and go, and each of what it finds. */
  private static final class Roll implements DriverPlugin {
    @Override
    public Map<String, String> init(SparkContext spark, PluginContext context) {
      KNOWN.clear();
      FINDINGS.clear();
      spark.addSparkListener(new Listener());
      try {
        return SharedStorage.instructions(spark);
      } catch (IOException problem) {
        throw new IllegalStateException("the checkpoint cannot be written: " + problem, problem);
      }
    }

    @Override
    public Object receive(Object message) {
      String[] said = (String[]) message;
      FINDINGS.put(said[0], new Finding(said[1], said[2], said[3]));
      return "";
    }
  }

  private static final class Listener extends SparkListener {
    @Override
    public void onExecutorAdded(SparkListenerExecutorAdded event) {
      KNOWN.put(event.executorId(), new Executor(
          event.executorInfo().executorHost(), event.executorInfo().totalCores()));
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
      KNOWN.remove(event.executorId());
      FINDINGS.remove(event.executorId());
    }
  }
}
