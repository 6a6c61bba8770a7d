package tallyboard.kernel;

/** What brought a record about. */
record Cause(String type, int partition, long offset, long time, String agent, String user,
    String command) {}
