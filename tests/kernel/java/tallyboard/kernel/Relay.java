package tallyboard.kernel;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * Sends numbered rows through a channel from many threads to one.
 *
 * <p>Prints how many rows came, how many of them out of their writer's order, the most bytes that
 * waited, and whether the channel ended. Arguments: writers, rows of each, bytes of a row, how many
 * of the writers end, and the reader's pause after each look, ms.
 */
public final class Relay {
  /** Looks after the last write that bring nothing until the channel counts as one that goes on. */
  private static final int EMPTY_LOOKS = 3;

  private final RowChannel channel;
  private final long[] next;
  private long most;
  private long rows;
  private long outOfOrder;

  private Relay(int writers) {
    channel = new RowChannel(writers);
    next = new long[writers];
  }

  /** See the class. */
  public static void main(String[] arguments) throws Exception {
    int[] n = IntStream.range(0, 5).map(at -> Integer.parseInt(arguments[at])).toArray();
    Relay relay = new Relay(n[0]);
    ExecutorService writers = Executors.newFixedThreadPool(n[0]);
    List<Future<?>> written = new ArrayList<>();
    for (int writer = 0; writer < n[0]; writer++) {
      int own = writer;
      written.add(writers.submit(() -> relay.write(own, n[1], n[2], own < n[3])));
    }
    boolean ended = relay.read(n[4], written);
    for (Future<?> each : written) each.get();
    writers.shutdown();
    System.out.printf("%d %d %d %s%n", relay.rows, relay.outOfOrder, relay.most, ended);
  }

  private Void write(int writer, int rows, int size, boolean ends) throws InterruptedException {
    for (long number = 0; number < rows; number++) {
      UnsafeRow row = new UnsafeRow(2);
      row.pointTo(new byte[size], size);
      row.setLong(0, writer);
      row.setLong(1, number);
      while (!channel.offer(row)) Thread.onSpinWait();
    }
    if (ends) channel.end();
    return null;
  }

  /** Returns whether the channel ended. */
  private boolean read(int pause, List<Future<?>> written) throws InterruptedException {
    ArrayDeque<UnsafeRow> taken = new ArrayDeque<>();
    int empty = 0;
    while (empty < EMPTY_LOOKS) {
      boolean all = written.stream().allMatch(Future::isDone);
      taken = channel.take(taken);
      if (taken == null) return true;
      empty = all && taken.isEmpty() ? empty + 1 : 0;
      long bytes = 0;
      while (!taken.isEmpty()) bytes += check(taken.remove());
      most = Math.max(most, bytes);
      Thread.sleep(pause);
    }
    return false;
  }

  private long check(UnsafeRow row) {
    rows++;
    int writer = (int) row.getLong(0);
    if (row.getLong(1) != next[writer]++) outOfOrder++;
    return row.getSizeInBytes();
  }
}
