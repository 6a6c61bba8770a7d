package tallyboard.kernel;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** Does to files of a checkpoint what standard input says, and answers each line with one. */
public final class Scribe {
  private Scribe() {}

  /** Takes no arguments. */
  public static void main(String[] arguments) throws Exception {
    try (Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8)) {
      while (lines.hasNextLine()) System.out.println(answer(lines.nextLine().split(" ")));
    }
  }

  private static String answer(String[] words) throws Exception {
    CheckpointFileManager files = manager(words[0], words[2]);
    Path path = new Path(words[2]);
    try {
      return switch (words[1]) {
        case "write" -> write(files, path, true, words[3]);
        case "create" -> write(files, path, false, words[3]);
        case "cancel" -> cancel(files, path, words[3]);
        case "read" -> read(files, path);
        case "kind" -> kind(files, path);
        case "list" -> String.valueOf(files.list(path).length);
        case "race" -> race(words[0], path, Integer.parseInt(words[3]));
        case "forever" -> forever(files, path);
        default -> throw new IllegalArgumentException(words[1]);
      };
    } catch (java.io.IOException refused) {
      return refused.getClass().getName();
    }
  }

  private static CheckpointFileManager manager(String name, String path) throws Exception {
    Configuration conf = new Configuration();
    conf.setBoolean("fs.file.impl.disable.cache", true); // each name has its own files
    if (name.equals("own")) {
      conf.set("fs.file.impl", LocalFiles.class.getName());
      return new LocalCheckpoint(new Path(path), conf);
    }
    if (name.equals("elsewhere")) {
      conf.set("fs.file.impl", org.apache.hadoop.fs.RawLocalFileSystem.class.getName());
      conf.set("spark.sql.streaming.checkpointFileManagerClass", LocalCheckpoint.class.getName());
      return new LocalCheckpoint(new Path(path), conf);
    }
    return CheckpointFileManager.create(new Path(path), conf);
  }

  private static String write(CheckpointFileManager files, Path path, boolean over, String text)
      throws java.io.IOException {
    var out = files.createAtomic(path, over);
    out.write(text.getBytes(StandardCharsets.UTF_8));
    out.close();
    return "written";
  }

  private static String cancel(CheckpointFileManager files, Path path, String text)
      throws java.io.IOException {
    var out = files.createAtomic(path, false);
    out.write(text.getBytes(StandardCharsets.UTF_8));
    out.cancel();
    out.close();
    return "cancelled";
  }

  private static String kind(CheckpointFileManager files, Path path) {
    var out = files.createAtomic(path, false);
    out.cancel();
    return out.getClass().getSimpleName();
  }

  private static String read(CheckpointFileManager files, Path path) throws java.io.IOException {
    try (var in = files.open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Returns how many of so many threads may say that they have made the file. */
  private static String race(String name, Path path, int threads) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    List<Future<String>> all = pool.invokeAll(IntStream.range(0, threads)
        .<java.util.concurrent.Callable<String>>mapToObj(number ->
            () -> answer(new String[] {name, "create", path.toString(), "by" + number}))
        .toList());
    pool.shutdown();
    int made = 0;
    for (Future<String> each : all) if (each.get().equals("written")) made++;
    return String.valueOf(made);
  }

  /** Writes one file over and over: a letter, so often that no buffer holds all of it. */
  private static String forever(CheckpointFileManager files, Path path) throws Exception {
    for (int number = 0; ; number++) {
      write(files, path, true, String.valueOf((char) ('a' + number % 26)).repeat(300_000));
      if (number == 0) System.out.println("begun");
    }
  }
}
