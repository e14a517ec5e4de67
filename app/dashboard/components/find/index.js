// The dialog that opens anything by its name: a button in the header, and Ctrl+K on every page.
import { h, mount } from "../dom.js";

/** @typedef {{ kind: string, name: string, why: string, about: string }} Hit */
/** @typedef {{ name: string, title: string }} Page */
/** @typedef {{ kind: string, name: string, about: string, href: string }} Entry */

const WAIT_MS = 120;
const MOST = 20;
const HINT =
  "An id or its beginning, a record such as 12 or train/12, a file, a dataset, a tag, a set, a page";

/** @type {(name: string, value: string) => string} */
function browseAddress(name, value) {
  // A value that begins with "~" is written with two, as in the filters of Browse.
  return `./?${new URLSearchParams({ [name]: value.startsWith("~") ? `~${value}` : value })}`;
}

/** @type {Record<string, (name: string) => string>} */
const ADDRESSES = {
  episode: (name) => `episode?${new URLSearchParams({ episode: name })}`,
  dataset: (name) => browseAddress("f.dataset", name),
  tag: (name) => browseAddress("f.tags", name),
  set: (name) => `sets?${new URLSearchParams({ set: name })}`,
};

/** @type {(pages: Page[], text: string) => Entry[]} */
function findPages(pages, text) {
  const start = text.toLowerCase();
  return pages
    .filter(({ title }) => title.toLowerCase().startsWith(start))
    .map(({ name, title }) => ({ kind: "page", name: title, about: "", href: name || "./" }));
}

/** @type {(text: string, signal: AbortSignal) => Promise<Entry[]>} */
async function findNames(text, signal) {
  const answer = await fetch(`/api/find?${new URLSearchParams({ text, limit: String(MOST) })}`, { signal });
  const document = await answer.json();
  if (!answer.ok) throw new Error(`${document.reason}: ${document.detail}`);
  return document.hits.map((/** @type {Hit} */ { kind, name, why, about }) => ({
    kind: why === "name" ? kind : `${kind} by ${why}`,
    name,
    about,
    href: ADDRESSES[kind](name),
  }));
}

class Finder {
  /** @param {Page[]} pages */
  constructor(pages) {
    this.pages = pages;
    this.active = 0;
    this.timer = 0;
    this.request = new AbortController();
    /** @type {HTMLAnchorElement[]} */
    this.links = [];
    this.field = h("input", { type: "search", placeholder: "Find by name", autocomplete: "off" });
    for (const [name, value] of [
      ["role", "combobox"],
      ["aria-label", "Find by name"],
      ["aria-controls", "hits"],
      ["aria-expanded", "true"],
    ]) {
      this.field.setAttribute(name, value);
    }
    this.status = h("div", { class: "muted status", role: "status" }, HINT);
    this.list = h("div", { id: "hits", class: "hits", role: "listbox", "aria-label": "Found" });
    this.dialog = h("dialog", { "aria-label": "Find" }, this.field, this.list, this.status);
    const open = h(
      "button",
      { class: "open-find", title: "Find by name (Ctrl+K)" },
      "Find ",
      h("kbd", {}, "Ctrl K"),
    );
    open.addEventListener("click", () => this.open());
    this.node = h("div", { class: "find" }, open, this.dialog);
    this.field.addEventListener("input", () => this.ask());
    this.dialog.addEventListener("keydown", (event) => this.press(event));
    // A click beside it closes it: the dialog itself has no room around what is in it.
    this.dialog.addEventListener("click", (event) => {
      if (event.composedPath()[0] === this.dialog) this.dialog.close();
    });
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.field.focus();
    this.field.select();
  }

  ask() {
    this.request.abort();
    this.request = new AbortController();
    clearTimeout(this.timer);
    const text = this.field.value.trim();
    // What was shown is of another text: Enter must not open it.
    this.show([], text ? "Searching" : HINT);
    if (text) this.timer = window.setTimeout(() => this.answer(text, this.request.signal), WAIT_MS);
  }

  /** @type {(text: string, signal: AbortSignal) => Promise<void>} */
  async answer(text, signal) {
    try {
      const entries = [...(await findNames(text, signal)), ...findPages(this.pages, text)];
      const none = `Nothing has the name “${text}”. Browse searches by meaning and words.`;
      if (!signal.aborted) this.show(entries, entries.length ? "Enter opens, ↑ and ↓ move" : none);
    } catch (error) {
      if (!signal.aborted) this.show([], String(error instanceof Error ? error.message : error));
    }
  }

  /** @type {(entries: Entry[], status: string) => void} */
  show(entries, status) {
    this.links = entries.map(({ kind, name, about, href }, index) => {
      // An id says nothing to people: what the episode is about comes first.
      const texts = kind.startsWith("episode") && about ? [about, name] : [name, about];
      const parts = [
        h("span", { class: "badge none" }, kind),
        h("b", {}, texts[0]),
        h("span", { class: "about" }, texts[1]),
      ];
      const link = h("a", { id: `hit-${index}`, class: "hit", href, tabIndex: -1 }, parts);
      link.setAttribute("role", "option");
      link.addEventListener("click", (event) => this.follow(event, href));
      return link;
    });
    this.list.replaceChildren(...this.links);
    this.status.textContent = status;
    this.move(0);
  }

  /** @type {(event: MouseEvent, href: string) => void} Opens in this page; with Ctrl in a separate tab. */
  follow(event, href) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.dialog.close();
    // The page follows the address, as after the button "back" of the browser.
    history.pushState({}, "", href);
    window.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
  }

  /** @param {number} index */
  move(index) {
    this.active = Math.max(0, Math.min(index, this.links.length - 1));
    this.links.forEach((link, at) => link.setAttribute("aria-selected", String(at === this.active)));
    const link = this.links[this.active];
    if (link) {
      this.field.setAttribute("aria-activedescendant", link.id);
      link.scrollIntoView({ block: "nearest" });
    } else this.field.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event Escape closes at once: a search field would only empty itself. */
  press(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (steps) this.move(this.active + steps);
    else if (event.key === "Enter") this.links[this.active]?.click();
    else if (event.key === "Escape") this.dialog.close();
    else return;
    event.preventDefault();
  }
}

/** @type {(root: HTMLElement, data: { pages: Page[] }) => () => void} */
function buildFind(root, data) {
  const finder = new Finder(data.pages);
  const listeners = new AbortController();
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (
      event.key.toLowerCase() !== "k" ||
      !(event.ctrlKey || event.metaKey) ||
      event.shiftKey ||
      event.altKey
    ) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    finder.open();
  };
  document.addEventListener("keydown", press, { signal: listeners.signal, capture: true });
  root.append(finder.node);
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<{ pages: Page[] }>} component */
export default function (component) {
  return mount(component, buildFind);
}
