// @ts-check
// Whether somebody is at the list: its rows stay where they are then. No row here.
const RECENT_MS = 4000;

export class Presence {
  /**
   * onFree(): asked again when nobody may be at the list any more.
   *
   * @param {HTMLElement} list
   * @param {() => void} onFree
   */
  constructor(list, onFree) {
    this.list = list;
    this.onFree = onFree;
    this.inside = false;
    this.touchedAt = -Infinity;
    this.timer = 0;
    this.unwatched = false; // a wall: nobody is at it, wherever the pointer lies
    this.watch();
  }

  watch() {
    const { list } = this;
    const enter = (event) => {
      this.inside = event.pointerType !== "touch";
    };
    const leave = () => {
      this.inside = false;
      this.onFree();
    };
    list.addEventListener("pointerenter", enter);
    list.addEventListener("pointermove", enter);
    list.addEventListener("pointerleave", leave);
    list.addEventListener("focusout", () => this.onFree());
    document.documentElement.addEventListener("pointerleave", leave);
    const touched = () => {
      this.touchedAt = Date.now();
    };
    for (const kind of ["keydown", "pointerdown", "touchmove", "wheel"]) {
      document.addEventListener(kind, touched, { passive: true, capture: true });
    }
    document.addEventListener("scroll", () => this.scrolled() || this.onFree(), {
      passive: true,
    });
  }

  /** Whether the rows must stay; if so, it is asked again by itself as time goes. */
  holds() {
    if (this.unwatched) return false;
    const left = this.touchedAt + RECENT_MS - Date.now();
    if (left > 0) this.askIn(left + 50);
    return left > 0 || this.inside || this.scrolled() || this.focused() || this.selected();
  }

  askIn(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.onFree, ms);
  }

  scrolled() {
    return window.scrollY > 8;
  }

  focused() {
    return this.list.contains(document.activeElement);
  }

  selected() {
    const selection = getSelection();
    return !selection.isCollapsed && this.list.contains(selection.anchorNode);
  }
}
