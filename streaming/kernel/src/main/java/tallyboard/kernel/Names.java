package tallyboard.kernel;

/** What may name an asset, an agent, a user or a state, as domain/names.py has it. */
final class Names {
  static final String USER = "user:";
  private static final int MAX_NAME = 255;
  private static final int MAX_STATE = 64;

  private Names() {}

  static boolean ok(String name) {
    return fits(name, MAX_NAME);
  }

  static boolean stateOk(String state) {
    return fits(state, MAX_STATE);
  }

  private static boolean fits(String name, int most) {
    for (int i = 0; i < name.length(); i++) {
      char letter = name.charAt(i);
      if (letter < ' ' || letter == 0x7f) return false;
    }
    return !name.isEmpty() && length(name) <= most;
  }

  /** Unicode code points. */
  static int length(String text) {
    return text.codePointCount(0, text.length());
  }

  /** By code points, as Python orders texts; String.compareTo puts U+1F600 before U+FFFD. */
  static int compare(String one, String other) {
    int shorter = Math.min(one.length(), other.length());
    for (int i = 0; i < shorter; i++) {
      char a = one.charAt(i);
      char b = other.charAt(i);
      if (a == b) continue;
      boolean surrogate = Character.isSurrogate(a);
      if (surrogate != Character.isSurrogate(b)) return surrogate ? 1 : -1;
      return a - b;
    }
    return one.length() - other.length();
  }
}
