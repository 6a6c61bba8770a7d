package tallyboard.peers;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;

/** A record of the source topic: a report, or a `set` command, which marks a place in the log. */
public record Report(String type, String agent, String state, String id, long reportedAt) {
  /** Of a report that names no time. */
  public static final long NONE = -1;
  private static final JsonFactory JSON = new JsonFactory();

  /** Returns what the bytes say, unknown fields left out. Raises IOException where it is no JSON. */
  public static Report read(byte[] value) throws IOException {
    String type = null, agent = null, state = null, id = null;
    long reportedAt = NONE;
    try (JsonParser parser = JSON.createParser(value)) {
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        parser.nextToken();
        switch (name) {
          case "type" -> type = parser.getText();
          case "agent" -> agent = parser.getText();
          case "state" -> state = parser.getText();
          case "id" -> id = parser.getText();
          case "reported_at" -> reportedAt = parser.getLongValue();
          default -> parser.skipChildren();
        }
      }
    }
    return new Report(type, agent, state, id, reportedAt);
  }

  boolean isCommand() {
    return type.equals("set");
  }
}
