// The second that is shown, in the address of the page.

const WRITE_MS = 500;

/**
 * The address of a page at a second of its episode.
 *
 * @param {string} href
 * @param {number} second
 */
export function addressAt(href, second) {
  const url = new URL(href);
  // The start is written where another second was: without one a search opens an episode where it fits.
  if (second >= 0.005 || url.searchParams.has("t")) url.searchParams.set("t", second.toFixed(2));
  return url.href;
}

/** Writes the second into the address, at most twice a second: browsers limit how often. */
export class Address {
  /** @param {string} episode The address of another one, which the page is about to show, stays. */
  constructor(episode) {
    this.episode = episode;
    this.second = 0;
    this.timer = 0;
  }

  /** @param {number} second */
  show(second) {
    this.second = second;
    this.timer ||= window.setTimeout(() => this.write(), WRITE_MS);
  }

  write() {
    this.stop();
    const names = new URL(location.href).searchParams;
    if ((names.get("episode") ?? names.get("a") ?? this.episode) !== this.episode) return;
    const address = addressAt(location.href, this.second);
    if (address !== location.href) history.replaceState(history.state, "", address);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
