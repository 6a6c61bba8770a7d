package tallyboard.peers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Keeps each asset, and for each asset with votes one timer in a store that is ordered by time. A
 * timer is moved only when it fires, so that a report that renews a vote costs no second write.
 */
final class FoldProcessor implements Processor<byte[], byte[], byte[], byte[]> {
  private static final Duration LOOK = Duration.ofMillis(250);
  private static final byte[] THERE = {};

  private final Fold fold;
  private ProcessorContext<byte[], byte[]> context;
  private KeyValueStore<byte[], Asset> assets;
  private KeyValueStore<byte[], byte[]> timers;

  FoldProcessor(Fold fold) {
    this.fold = fold;
  }

  @Override
  public void init(ProcessorContext<byte[], byte[]> context) {
    this.context = context;
    assets = context.getStateStore(StreamsPeer.ASSETS);
    timers = context.getStateStore(StreamsPeer.TIMERS);
    // Of the log's time: ticks move it where no reports arrive, as in the product.
    context.schedule(LOOK, PunctuationType.STREAM_TIME, this::fire);
  }

  @Override
  public void process(Record<byte[], byte[]> record) {
    byte[] key = record.key();
    if (key == null) return; // a tick, or a rule
    Asset asset = assets.get(key);
    if (asset == null) asset = new Asset();
    RecordMetadata place = context.recordMetadata().orElseThrow();
    boolean changed = fold.apply(asset, read(record.value()), place.partition(), place.offset(),
        record.timestamp(), (now, cause) -> emit(key, now, cause));
    if (!changed) return;
    if (asset.timer == Asset.NONE) setTimer(key, asset);
    assets.put(key, asset);
  }

  private static Report read(byte[] value) {
    try {
      return Report.read(value);
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  private void setTimer(byte[] key, Asset asset) {
    long due = fold.due(asset);
    asset.timer = due == Long.MAX_VALUE ? Asset.NONE : due;
    if (asset.timer != Asset.NONE) timers.put(timerKey(due, key), THERE);
  }

  private void fire(long now) {
    List<byte[]> due = new ArrayList<>();
    try (KeyValueIterator<byte[], byte[]> range = timers.range(timerKey(0, new byte[0]),
        timerKey(now + 1, new byte[0]))) {
      while (range.hasNext()) {
        KeyValue<byte[], byte[]> next = range.next();
        due.add(next.key);
      }
    }
    for (byte[] timer : due) fire(timer, now);
  }

  private void fire(byte[] timer, long now) {
    timers.delete(timer);
    byte[] key = new byte[timer.length - Long.BYTES];
    System.arraycopy(timer, Long.BYTES, key, 0, key.length);
    Asset asset = assets.get(key);
    fold.fire(asset, context.taskId().partition(), now, (then, cause) -> emit(key, then, cause));
    setTimer(key, asset);
    assets.put(key, asset);
  }

  private static byte[] timerKey(long due, byte[] key) {
    return ByteBuffer.allocate(Long.BYTES + key.length).putLong(due).put(key).array();
  }

  private void emit(byte[] key, Asset asset, Fold.Cause cause) {
    String name = new String(key, StandardCharsets.UTF_8);
    byte[] value = StateJson.write(name, asset, cause, fold);
    context.forward(new Record<>(key, value, cause.time(), headers(asset, cause)));
  }

  private static Headers headers(Asset asset, Fold.Cause cause) {
    Headers headers = new RecordHeaders();
    headers.add("version", bytes(StateJson.version(asset)));
    if (cause.command() == null) return headers;
    headers.add("command", bytes(cause.command()));
    return headers.add("outcome", bytes("applied"));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
