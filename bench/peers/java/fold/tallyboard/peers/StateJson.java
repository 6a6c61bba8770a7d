package tallyboard.peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/** A state record as the product writes it: docs/wire-format.md. */
public final class StateJson {
  private static final JsonFactory JSON = new JsonFactory();

  private StateJson() {}

  public static String version(Asset asset) {
    return "1." + asset.offset + "." + asset.step;
  }

  public static byte[] write(String name, Asset asset, Fold.Cause cause, Fold fold) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(1200);
    try (JsonGenerator out = JSON.createGenerator(bytes)) {
      out.writeStartObject();
      out.writeStringField("asset", name);
      out.writeStringField("state", Fold.STATES.get(asset.state));
      out.writeStringField("previous", state(asset.previous));
      out.writeNumberField("since", asset.since);
      marks(out, asset);
      out.writeStringField("version", version(asset));
      cause(out, cause);
      out.writeArrayFieldStart("votes");
      for (Asset.Vote vote : asset.votes) vote(out, vote, fold);
      out.writeEndArray();
      out.writeNullField("pending");
      out.writeNullField("override");
      answer(out, cause.command());
      out.writeEndObject();
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return bytes.toByteArray();
  }

  private static String state(int rank) {
    return rank < 0 ? null : Fold.STATES.get(rank);
  }

  private static void marks(JsonGenerator out, Asset asset) throws IOException {
    String unconfirmed = Fold.unconfirmed(asset), disputed = Fold.disputed(asset);
    out.writeBooleanField("unconfirmed", unconfirmed != null);
    if (unconfirmed != null) out.writeStringField("unconfirmed_reason", unconfirmed);
    if (disputed != null) out.writeStringField("disputed", disputed);
  }

  private static void cause(JsonGenerator out, Fold.Cause cause) throws IOException {
    out.writeObjectFieldStart("cause");
    out.writeStringField("type", cause.type());
    out.writeNumberField("partition", cause.partition());
    out.writeNumberField("offset", cause.offset());
    out.writeNumberField("time", cause.time());
    out.writeStringField("agent", cause.agent());
    out.writeNullField("user");
    out.writeStringField("command", cause.command());
    out.writeEndObject();
  }

  private static void vote(JsonGenerator out, Asset.Vote vote, Fold fold) throws IOException {
    out.writeStartObject();
    out.writeStringField("agent", vote.agent());
    out.writeStringField("state", Fold.STATES.get(vote.state()));
    out.writeNumberField("reported_at", vote.reportedAt());
    out.writeNumberField("time", vote.time());
    out.writeNumberField("offset", vote.offset());
    out.writeNumberField("expires", vote.expires());
    out.writeNumberField("weight", 1);
    out.writeNullField("detail");
    if (!vote.live()) out.writeNumberField("silent", vote.silent());
    if (vote.flapping()) flapping(out, vote, fold);
    out.writeEndObject();
  }

  private static void flapping(JsonGenerator out, Asset.Vote vote, Fold fold) throws IOException {
    out.writeObjectFieldStart("flapping");
    out.writeStringField("state", Fold.STATES.get(Fold.ATTACK));
    out.writeNumberField("time", vote.turned());
    out.writeNumberField("until", vote.turned() + fold.lifetime);
    out.writeEndObject();
  }

  private static void answer(JsonGenerator out, String command) throws IOException {
    if (command == null) {
      out.writeNullField("answer");
      return;
    }
    out.writeObjectFieldStart("answer");
    out.writeStringField("command", command);
    out.writeStringField("outcome", "applied");
    out.writeEndObject();
  }
}
