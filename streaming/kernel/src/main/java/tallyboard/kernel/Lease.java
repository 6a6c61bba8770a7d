package tallyboard.kernel;

/**
 * Ends this JVM once nobody has confirmed for too long that its driver leads: all that a driver
 * commits and writes on a shared storage passes through here, and another driver may lead by then.
 * streaming/job/leadership.py renews it.
 */
public final class Lease {
  private static final int LOST = 75;
  private static final long LOOK_MS = 50;

  private volatile long end;

  private Lease() {}

  /** Begins a lease of this length, ms. */
  public static Lease begin(long lengthMs) {
    Lease lease = new Lease();
    lease.renew(lengthMs);
    Thread watch = new Thread(lease::watch, "lease");
    watch.setDaemon(true);
    watch.setPriority(Thread.MAX_PRIORITY);
    watch.start();
    return lease;
  }

  /** Has it end so much later than now, ms. */
  public void renew(long lengthMs) {
    end = System.nanoTime() + lengthMs * 1_000_000;
  }

  private void watch() {
    try {
      while (System.nanoTime() - end < 0) Thread.sleep(LOOK_MS);
    } catch (InterruptedException ended) {
      return;
    }
    System.err.println("nobody has confirmed that this driver leads: its JVM ends");
    Runtime.getRuntime().halt(LOST);
  }
}
