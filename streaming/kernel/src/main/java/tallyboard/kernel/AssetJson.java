package tallyboard.kernel;

import org.apache.spark.sql.api.java.UDF1;

/**
 * An asset of the kernel's state as JSON, for whoever looks into a checkpoint: the list of fields
 * that wire/asset.py has.
 */
public final class AssetJson implements UDF1<byte[], String> {
  /** The bytes that Codec wrote, as JSON. Raises IllegalStateException for an unknown version. */
  @Override
  public String call(byte[] data) {
    return new Text(Codec.read(data)).toString();
  }

  /** The JSON of one asset. */
  private static final class Text {
    private final StringBuilder out = new StringBuilder(512);

    Text(Asset asset) {
      out.append('[');
      text(asset.state).text(asset.shown).text(asset.previous).number(asset.since);
      text(asset.unconfirmed).text(asset.disputed);
      open();
      for (Asset.Vote vote : asset.votes) vote(vote);
      close();
      open();
      for (Asset.Wait wait : asset.waits) {
        open();
        text(wait.state()).number(wait.since());
        close();
      }
      close();
      override(asset.override);
      number(asset.offset).number(asset.step);
      open();
      number(asset.changedOffset).number(asset.changedStep);
      close();
      number(asset.reminded).number(asset.emittedAt);
      open();
      for (Asset.Answer answer : asset.answers) {
        open();
        text(answer.command()).text(answer.outcome()).text(answer.cause()).text(answer.user());
        close();
      }
      close();
      time(asset.forgetAt).time(asset.purgedAt);
      open();
      for (Asset.Task task : asset.tasks) task(task);
      close();
      open();
      for (Asset.Doubt doubt : asset.doubts) doubt(doubt);
      close();
      time(asset.settled);
      out.append(']');
    }

    private void vote(Asset.Vote vote) {
      open();
      text(vote.agent()).text(vote.state()).number(vote.reportedAt()).number(vote.time());
      number(vote.offset()).time(vote.expires()).number(vote.weight()).text(vote.detail());
      muted(vote.muted());
      time(vote.silent()).number(vote.order()).number(vote.age());
      text(vote.doubt()).text(vote.detailFault());
      flap(vote.flap());
      number(vote.claimed());
      close();
    }

    private void muted(Asset.Muted muted) {
      if (muted == null) {
        raw("null");
        return;
      }
      open();
      time(muted.until()).text(muted.user());
      close();
    }

    private void flap(Asset.Flap flap) {
      if (flap == null) {
        raw("null");
        return;
      }
      open();
      text(flap.state()).number(flap.time()).number(flap.until());
      raw(Boolean.toString(flap.again()));
      close();
    }

    private void doubt(Asset.Doubt doubt) {
      open();
      text(doubt.agent()).text(doubt.reason()).text(doubt.said()).number(doubt.time());
      number(doubt.offset()).number(doubt.until()).number(doubt.weight());
      muted(doubt.muted());
      close();
    }

    private void task(Asset.Task task) {
      open();
      text(task.id()).text(task.action()).text(task.user()).text(task.reason()).time(task.due());
      text(task.state()).text(task.condition()).time(task.every()).time(task.until());
      time(task.times()).text(task.within()).text(task.outcome()).time(task.ran());
      text(task.aside());
      close();
    }

    private void override(Asset.Override pin) {
      if (pin == null) {
        raw("null");
        return;
      }
      open();
      text(pin.state()).time(pin.until()).text(pin.user()).text(pin.reason()).text(pin.command());
      number(pin.since()).text(pin.underlying());
      close();
    }

    private void open() {
      separate();
      out.append('[');
    }

    private void close() {
      out.append(']');
    }

    private void separate() {
      if (out.charAt(out.length() - 1) != '[') out.append(',');
    }

    private Text raw(String json) {
      separate();
      out.append(json);
      return this;
    }

    private Text number(long number) {
      return raw(Long.toString(number));
    }

    private Text time(long time) {
      return time == Asset.NONE ? raw("null") : number(time);
    }

    private Text text(String text) {
      if (text == null) return raw("null");
      separate();
      Json.write(out, text);
      return this;
    }

    @Override
    public String toString() {
      return out.toString();
    }
  }
}
