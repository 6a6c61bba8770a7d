package tallyboard.kernel;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReturnAnswer;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import scala.Option;
import scala.Some;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Ends a batch of Real-time Mode sooner than the trigger says, where that is better.
 *
 * <p>While the JVM is cold: no record leaves during a commit, and the first ones take longest, as
 * their code is loaded and compiled. So they come at once, when records wait anyhow, and not
 * minutes later. And where many records come: who starts after a crash reads those of the last
 * batch again.
 */
public final class BatchLength extends SparkStrategy {
  /** The shortest batch, but for a cold JVM: that which Spark takes as a trigger. */
  private static final long SHORTEST_MS = 5_000;

  /** How long a batch lasts while the JVM is cold. */
  private static final long COLD_MS = 2_000;

  /** Until when this JVM counts as cold, ms since the epoch: its first query says. */
  private static long coldUntil;

  private final long most;
  private long position;
  private long plannedAt;

  private BatchLength(long most) {
    this.most = most;
  }

  /**
   * Has the next query that the session starts have about so many records in a batch at most, and
   * commit often if it begins less than `warmUp` ms after the first one of this JVM.
   */
  public static synchronized void limit(SparkSession session, long warmUp, long most) {
    if (coldUntil == 0) coldUntil = System.currentTimeMillis() + warmUp;
    session.experimental().extraStrategies_$eq(seq(new BatchLength(most)));
  }

  /** Leaves the planning to Spark, with sources that may end sooner. */
  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    return plan instanceof ReturnAnswer whole
        ? seq(planLater(whole.child().transformDown(new Limited()))) : seq();
  }

  private final class Limited extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof StreamingDataSourceV2ScanRelation scan
          && scan.relation().realTimeModeDuration().isDefined()
          && scan.startOffset().isDefined();
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      StreamingDataSourceV2ScanRelation scan = (StreamingDataSourceV2ScanRelation) plan;
      long requested = (Long) scan.relation().realTimeModeDuration().get();
      long length = length(requested, position((KafkaSourceOffset) scan.startOffset().get()));
      return scan.copy(lasting(scan.relation(), length), scan.scan(), scan.output(), scan.stream(),
          scan.startOffset(), scan.endOffset());
    }
  }

  /** Returns how long the batch that begins here is to last, ms. */
  private long length(long requested, long begin) {
    long now = System.currentTimeMillis();
    long read = plannedAt == 0 ? 0 : begin - position;
    long passed = now - plannedAt;
    position = begin;
    plannedAt = now;
    if (now < coldUntil) return Math.min(requested, COLD_MS);
    long fitting = read > 0 ? most * passed / read : requested;
    return Math.min(requested, Math.max(SHORTEST_MS, fitting));
  }

  private static long position(KafkaSourceOffset offset) {
    long sum = 0;
    for (Object each : CollectionConverters.asJava(offset.partitionToOffsets()).values()) {
      sum += (Long) each;
    }
    return sum;
  }

  private static StreamingDataSourceV2Relation lasting(
      StreamingDataSourceV2Relation source, long length) {
    Option<Object> duration = new Some<>(length);
    return source.copy(source.table(), source.output(), source.catalog(), source.identifier(),
        source.options(), source.metadataPath(), duration, source.sourceIdentifyingName());
  }

  @SafeVarargs
  private static <T> Seq<T> seq(T... items) {
    return ArraySeq.unsafeWrapArray(items);
  }
}
