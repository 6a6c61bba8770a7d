package tallyboard.kernel;

import java.util.concurrent.CompletableFuture;
import org.apache.spark.api.python.PythonGatewayServer;
import org.apache.spark.launcher.JavaModuleOptions;
import org.apache.spark.sql.classic.SparkSession;

/**
 * The main class of a JVM that serves PySpark, as Spark's own gateway does, and in which Spark starts
 * at once: Python imports meanwhile what it needs to talk to it. Spark's configuration is in the
 * system properties `spark.*`.
 */
public final class Gateway {
  private static final String MODULE_OPTIONS = "--module-options";
  private static final CompletableFuture<SparkSession> SESSION = new CompletableFuture<>();

  private Gateway() {}

  /**
   * Serves until standard input ends. With `--module-options` it prints the options that open Java's
   * modules to Spark instead, one a line.
   */
  public static void main(String[] arguments) {
    if (arguments.length == 1 && arguments[0].equals(MODULE_OPTIONS)) {
      for (String option : JavaModuleOptions.defaultModuleOptionArray()) System.out.println(option);
      return;
    }
    new Thread(Gateway::start, "spark-start").start();
    PythonGatewayServer.main(arguments);
  }

  private static void start() {
    try {
      SparkSession session = SparkSession.builder().getOrCreate();
      session.sessionState(); // otherwise made for the first query
      SESSION.complete(session);
    } catch (Throwable error) { // whoever asks for the session is told
      SESSION.completeExceptionally(error);
    }
  }

  /** Returns Spark's session once it is there. Raises what kept it from starting. */
  public static SparkSession session() {
    return SESSION.join();
  }
}
