package tallyboard.kernel;

import java.util.ArrayDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * The rows on their way from many tasks that write to one that reads, in the order in which each of
 * them wrote.
 *
 * <p>Nobody waits for ever: who has waited for {@link #PATIENCE_MS} is given back nothing, and can
 * look whether its task is still needed.
 */
final class RowChannel {
  /** Longest that a call waits, ms. */
  static final long PATIENCE_MS = 100;

  /** While so many bytes are on their way, no more are taken. */
  static final long MOST_BYTES = 4 << 20;

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition filled = lock.newCondition();
  private final Condition emptied = lock.newCondition();
  private ArrayDeque<UnsafeRow> rows = new ArrayDeque<>();
  private long bytes;
  private int writers;

  /** Opens a channel that ends when so many writers have ended. */
  RowChannel(int writers) {
    this.writers = writers;
  }

  /** Returns whether a row was taken: not while too many bytes wait. */
  boolean offer(UnsafeRow row) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      if (bytes > MOST_BYTES) emptied.await(PATIENCE_MS, TimeUnit.MILLISECONDS);
      if (bytes > MOST_BYTES) return false;
      rows.add(row);
      bytes += row.getSizeInBytes();
      if (rows.size() == 1) filled.signal();
      return true;
    } finally {
      lock.unlock();
    }
  }

  /** Ends one writer's part. */
  void end() {
    lock.lock();
    try {
      writers--;
      filled.signal();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Returns all rows that wait, maybe none, or null where none will come.
   *
   * @param spare an empty queue that the channel may have for it
   */
  ArrayDeque<UnsafeRow> take(ArrayDeque<UnsafeRow> spare) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      if (rows.isEmpty() && writers > 0) filled.await(PATIENCE_MS, TimeUnit.MILLISECONDS);
      if (rows.isEmpty()) return writers > 0 ? spare : null;
      ArrayDeque<UnsafeRow> taken = rows;
      rows = spare;
      bytes = 0;
      emptied.signalAll();
      return taken;
    } finally {
      lock.unlock();
    }
  }
}
