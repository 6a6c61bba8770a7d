package tallyboard.kernel;

import java.util.Arrays;

/**
 * A set of names by their hashes alone, four bytes each: what is in it is held to be in it, what is
 * not in it may be.
 */
final class NameSet {
  private static final int LEAST = 1 << 10;

  /** Open addressing with linear probing, half full at most: Knuth, TAOCP 6.4. */
  private int[] hashes = new int[LEAST];
  private int size;

  void add(String name) {
    if (put(hashes, hash(name)) && 2 * ++size > hashes.length) grow();
  }

  boolean mayHold(String name) {
    int hash = hash(name);
    int at = place(hashes, hash);
    return hashes[at] == hash;
  }

  private void grow() {
    int[] former = hashes;
    hashes = new int[2 * former.length];
    Arrays.stream(former).filter(hash -> hash != 0).forEach(hash -> put(hashes, hash));
  }

  private static boolean put(int[] hashes, int hash) {
    int at = place(hashes, hash);
    if (hashes[at] == hash) return false;
    hashes[at] = hash;
    return true;
  }

  /** Returns where the hash is, or is to be. */
  private static int place(int[] hashes, int hash) {
    int at = hash & hashes.length - 1;
    while (hashes[at] != 0 && hashes[at] != hash) at = at + 1 & hashes.length - 1;
    return at;
  }

  /** Never 0, which is an empty place. The finalizer of MurmurHash3 spreads the bits. */
  private static int hash(String name) {
    int hash = name.hashCode();
    hash = (hash ^ hash >>> 16) * 0x85EBCA6B;
    hash = (hash ^ hash >>> 13) * 0xC2B2AE35;
    hash ^= hash >>> 16;
    return hash == 0 ? 1 : hash;
  }
}
