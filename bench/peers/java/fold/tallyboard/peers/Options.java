package tallyboard.peers;

import java.util.HashMap;
import java.util.Map;

/** Options of a program, as `name=value`. */
final class Options {
  private final Map<String, String> given = new HashMap<>();

  Options(String[] arguments) {
    for (String argument : arguments) {
      int equals = argument.indexOf('=');
      given.put(argument.substring(0, equals), argument.substring(equals + 1));
    }
  }

  String text(String name) {
    if (!given.containsKey(name)) throw new IllegalArgumentException("missing: " + name + "=");
    return given.get(name);
  }

  long number(String name) {
    return Long.parseLong(text(name));
  }

  /** Tells who started the program that its tasks run. */
  static void tellRunning() {
    System.out.println("running " + System.currentTimeMillis());
  }
}
