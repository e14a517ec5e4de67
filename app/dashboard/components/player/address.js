// The second that is shown, in the address of the page, and a copy of that address.

const WRITE_MS = 500;
const SHOWN_MS = 2000;

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
  constructor() {
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
    const address = addressAt(location.href, this.second);
    if (address !== location.href) history.replaceState(history.state, "", address);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  /** @param {HTMLElement} button Says for two seconds that the address was copied. */
  async copy(button) {
    this.write();
    const label = button.textContent;
    button.textContent = (await copyText(location.href)) ? "Copied" : "Copy it from the address bar";
    setTimeout(() => {
      button.textContent = label;
    }, SHOWN_MS);
  }
}

/**
 * Copies a text; whether it could. Pages without TLS have no clipboard but on the machine of the server.
 *
 * @param {string} text
 */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
