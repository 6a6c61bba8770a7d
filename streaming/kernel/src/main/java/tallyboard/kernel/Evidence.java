package tallyboard.kernel;

/** Whether what happened is evidence, by which a worse or a milder state may come. */
enum Evidence {
  SILENCE(false, false), UP(true, false), BOTH(true, true);

  final boolean up;
  final boolean down;

  Evidence(boolean up, boolean down) {
    this.up = up;
    this.down = down;
  }
}
