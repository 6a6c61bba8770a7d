package tallyboard.peers;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Keeps an asset as bytes of its own codec, and one timer of the log's time for it, which is moved
 * only when it fires.
 */
final class FoldFunction extends KeyedProcessFunction<String,
    Tuple5<String, byte[], Integer, Long, Long>, Tuple4<String, byte[], String, String>> {
  private static final long serialVersionUID = 1;

  private final long lifetimeMs;
  private transient Fold fold;
  private transient ValueState<byte[]> state;

  FoldFunction(long lifetimeMs) {
    this.lifetimeMs = lifetimeMs;
  }

  @Override
  public void open(OpenContext context) {
    fold = new Fold(lifetimeMs);
    state = getRuntimeContext().getState(new ValueStateDescriptor<>("asset",
        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
  }

  @Override
  public void processElement(Tuple5<String, byte[], Integer, Long, Long> record, Context context,
      Collector<Tuple4<String, byte[], String, String>> out) throws Exception {
    byte[] kept = state.value();
    Asset asset = kept == null ? new Asset() : AssetCodec.read(kept);
    boolean changed = fold.apply(asset, Report.read(record.f1), record.f2, record.f3, record.f4,
        (now, cause) -> emit(record.f0, now, cause, out));
    if (!changed) return;
    if (asset.timer == Asset.NONE) setTimer(asset, context);
    state.update(AssetCodec.write(asset));
  }

  @Override
  public void onTimer(long time, OnTimerContext context,
      Collector<Tuple4<String, byte[], String, String>> out) throws Exception {
    Asset asset = AssetCodec.read(state.value());
    fold.fire(asset, 0, time, (now, cause) -> emit(context.getCurrentKey(), now, cause, out));
    setTimer(asset, context);
    state.update(AssetCodec.write(asset));
  }

  private void setTimer(Asset asset, Context context) {
    long due = fold.due(asset);
    asset.timer = due == Long.MAX_VALUE ? Asset.NONE : due;
    if (asset.timer != Asset.NONE) context.timerService().registerEventTimeTimer(due);
  }

  private void emit(String key, Asset asset, Fold.Cause cause,
      Collector<Tuple4<String, byte[], String, String>> out) {
    String command = cause.command() == null ? "" : cause.command();
    byte[] value = StateJson.write(key, asset, cause, fold);
    out.collect(Tuple4.of(key, value, StateJson.version(asset), command));
  }
}
