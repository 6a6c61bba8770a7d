package tallyboard.kernel;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.ConfigurationSource;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.properties.PropertiesConfigurationFactory;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.deploy.SparkHadoopUtil;

/**
 * What an executor does before its first task: it reads the driver's token below the checkpoint,
 * writes and reads one of its own there, and reads the keys' file. Until all of that works it is
 * given no task: what it wrote would lie on a storage of its own.
 */
final class SharedStorage implements ExecutorPlugin {
  /** What may be wrong. streaming/spark/executors.py has the words. */
  static final String ABSENT = "absent";
  static final String FOREIGN = "foreign";
  static final String UNWRITABLE = "unwritable";
  static final String NO_KEYS = "no-keys";

  /** Spark's settings that the driver reads: see streaming/spark/session.py. */
  private static final String CHECKPOINT = "spark.tallyboard.checkpoint";
  private static final String KEYS = "spark.tallyboard.keys";
  private static final String LOGGING = "spark.tallyboard.logging";
  private static final String FOLDER = "executors";
  private static final String TOKEN = "token";
  private static final String OWN_LOGGING = "log4j2.configurationFile";
  private static final long PAUSE_MS = 1_000;
  private static final long GIVE_UP_MS = 60_000;

  private static final class Wrong extends Exception {
    final String kind, path;

    Wrong(String kind, Object path, String detail) {
      super(detail);
      this.kind = kind;
      this.path = path.toString();
    }
  }

  // ---- in the driver ----------------------------------------------------------------------------

  /** Writes the token, unless it is there; returns what executors are to know. */
  static Map<String, String> instructions(SparkContext spark) throws IOException {
    SparkConf conf = spark.conf();
    Map<String, String> known = new HashMap<>();
    String checkpoint = conf.get(CHECKPOINT, "");
    if (!checkpoint.isEmpty()) {
      known.put(CHECKPOINT, checkpoint);
      known.put(TOKEN, token(checkpoint, spark.hadoopConfiguration()));
    }
    known.put(KEYS, conf.get(KEYS, ""));
    known.put(LOGGING, Files.readString(Paths.get(conf.get(LOGGING))));
    return known;
  }

  private static String token(String checkpoint, Configuration hadoop) throws IOException {
    org.apache.hadoop.fs.Path path = tokenPath(checkpoint);
    FileSystem files = path.getFileSystem(hadoop);
    String kept = files.exists(path) ? read(files, path) : "";
    if (!kept.isEmpty()) return kept;
    String fresh = UUID.randomUUID().toString();
    write(files, path, fresh);
    return fresh;
  }

  private static void write(FileSystem files, org.apache.hadoop.fs.Path path, String text)
      throws IOException {
    try (FSDataOutputStream out = files.create(path, true)) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  private static org.apache.hadoop.fs.Path tokenPath(String checkpoint) {
    return new org.apache.hadoop.fs.Path(new org.apache.hadoop.fs.Path(checkpoint, FOLDER), TOKEN);
  }

  private static String read(FileSystem files, org.apache.hadoop.fs.Path path) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  // ---- in an executor ---------------------------------------------------------------------------

  /** Returns once the storage is there; raises after a minute without it, and Spark tries again. */
  @Override
  public void init(PluginContext context, Map<String, String> known) {
    quieten(known.get(LOGGING));
    long giveUp = System.currentTimeMillis() + GIVE_UP_MS;
    while (true) {
      Wrong wrong = look(context, known);
      report(context, wrong);
      if (wrong == null) return;
      if (System.currentTimeMillis() > giveUp)
        throw new IllegalStateException(wrong.path + ": " + wrong.getMessage());
      pause();
    }
  }

  /** Has this process log what the driver logs, unless its machine has settings of its own. */
  private static void quieten(String properties) {
    if (System.getProperty(OWN_LOGGING) != null) return;
    try {
      ConfigurationSource source = new ConfigurationSource(
          new ByteArrayInputStream(properties.getBytes(StandardCharsets.UTF_8)));
      Configurator.reconfigure(new PropertiesConfigurationFactory()
          .getConfiguration(LoggerContext.getContext(false), source));
    } catch (IOException unreadable) {
      throw new IllegalStateException(unreadable);
    }
  }

  private static Wrong look(PluginContext context, Map<String, String> known) {
    try {
      String checkpoint = known.get(CHECKPOINT);
      if (checkpoint != null) lookAtCheckpoint(context, checkpoint, known.get(TOKEN));
      if (!known.get(KEYS).isEmpty()) lookAtKeys(Paths.get(known.get(KEYS)));
      return null;
    } catch (Wrong wrong) {
      return wrong;
    }
  }

  private static void lookAtCheckpoint(PluginContext context, String checkpoint, String token)
      throws Wrong {
    org.apache.hadoop.fs.Path path = tokenPath(checkpoint);
    FileSystem files;
    String there;
    try {
      files = path.getFileSystem(SparkHadoopUtil.get().newConfiguration(context.conf()));
      there = read(files, path);
    } catch (FileNotFoundException absent) {
      throw new Wrong(ABSENT, checkpoint, "no such file");
    } catch (IOException unreadable) {
      throw new Wrong(ABSENT, checkpoint, unreadable.getMessage());
    }
    if (!there.equals(token)) throw new Wrong(FOREIGN, checkpoint, "another token");
    tryToWrite(files, new org.apache.hadoop.fs.Path(path.getParent(),
        "executor-" + context.executorID() + "-" + UUID.randomUUID()), checkpoint);
  }

  private static void tryToWrite(FileSystem files, org.apache.hadoop.fs.Path own, String checkpoint)
      throws Wrong {
    String text = own.getName();
    try {
      write(files, own, text);
      boolean same = read(files, own).equals(text);
      files.delete(own, false);
      if (!same) throw new Wrong(UNWRITABLE, checkpoint, "it does not read what it has written");
    } catch (IOException unwritable) {
      throw new Wrong(UNWRITABLE, checkpoint, unwritable.getMessage());
    }
  }

  private static void lookAtKeys(Path keys) throws Wrong {
    try {
      Keys.of(keys);
    } catch (IOException unreadable) {
      throw new Wrong(NO_KEYS, keys, unreadable instanceof java.nio.file.NoSuchFileException
          ? "no such file" : unreadable.getMessage());
    }
  }

  private static void report(PluginContext context, Wrong wrong) {
    String[] said = wrong == null
        ? new String[] {context.executorID(), "", "", ""}
        : new String[] {context.executorID(), wrong.kind, wrong.path,
            String.valueOf(wrong.getMessage())};
    try {
      context.ask(said);
    } catch (Exception gone) { // the driver: then this executor is of no use
      throw new IllegalStateException("the driver does not answer", gone);
    }
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(ended);
    }
  }
}
