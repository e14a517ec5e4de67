// A dialog on every page that opens what has a name: an episode, a set, a dataset, a tag or a page.
import { h, mount } from "../dom.js";

/** @typedef {{ pages: [name: string, title: string][] }} FindData */
/** @typedef {{ kind: string, name: string, detail: string }} Named */

const WAIT_MS = 120;
const MOST = 10;
/** @type {Record<string, (name: string) => string>} The address of what has a name, by its kind. */
const ADDRESSES = {
  page: (name) => (name === "browse" ? "/" : `/${name}`),
  episode: (name) => `/episode?${new URLSearchParams({ episode: name })}`,
  dataset: (name) => `/?${new URLSearchParams({ "f.dataset": name })}`,
  tag: (name) => `/?${new URLSearchParams({ "f.tags": name })}`,
  set: (name) => `/sets?${new URLSearchParams({ set: name })}`,
};

/**
 * Opens what has a name in this page, as the button "back" of the browser does: the page follows the address.
 *
 * @param {Named} named
 */
function open(named) {
  history.pushState({}, "", ADDRESSES[named.kind]?.(named.name) ?? "/");
  window.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}

/** @type {(text: string, pages: FindData["pages"]) => Named[]} */
function matchingPages(text, pages) {
  const part = text.toLowerCase();
  return pages
    .filter(([, title]) => title.toLowerCase().includes(part))
    .map(([name, title]) => ({ kind: "page", name, detail: title }));
}

/**
 * What the workspace has of that name. Throws an error with the reason where the server refuses.
 *
 * @type {(text: string, signal: AbortSignal) => Promise<Named[]>}
 */
async function askServer(text, signal) {
  const answer = await fetch(`/api/find?${new URLSearchParams({ text, limit: String(MOST) })}`, { signal });
  const document = await answer.json();
  if (!answer.ok) throw new Error(`${document.reason}: ${document.detail}`);
  return document.names;
}

/** @type {(named: Named, id: string, isActive: boolean, onclick: () => void) => HTMLElement} */
function buildRow(named, id, isActive, onclick) {
  const isPage = named.kind === "page";
  return h(
    "li",
    { id, role: "option", "aria-selected": String(isActive), onclick },
    h("span", { class: "badge none" }, named.kind),
    h("b", {}, isPage ? named.detail : named.name),
    h("span", { class: "muted" }, isPage ? "" : named.detail),
  );
}

/** The list of the dialog: its rows, which of them is active, and what is said where there is none. */
class Results {
  /**
   * @param {HTMLInputElement} field
   * @param {(named: Named) => void} onOpen
   */
  constructor(field, onOpen) {
    this.field = field;
    this.onOpen = onOpen;
    this.list = h("ul", { role: "listbox", id: "results", "aria-label": "Names" });
    this.status = h("p", { class: "muted", role: "status" });
    /** @type {Named[]} */
    this.rows = [];
    this.active = 0;
  }

  /** @type {(rows: Named[], status?: string) => void} */
  show(rows, status = "") {
    [this.rows, this.active] = [rows, 0];
    this.status.textContent = status;
    this.draw();
  }

  draw() {
    const rows = this.rows.map((row, number) =>
      buildRow(row, `row${number}`, number === this.active, () => this.onOpen(row)),
    );
    this.list.replaceChildren(...rows);
    this.field.setAttribute("aria-activedescendant", rows.length ? `row${this.active}` : "");
    this.field.setAttribute("aria-expanded", String(rows.length > 0));
    rows[this.active]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} step */
  move(step) {
    if (!this.rows.length) return;
    this.active = (this.active + step + this.rows.length) % this.rows.length;
    this.draw();
  }

  openActive() {
    const row = this.rows[this.active];
    if (row) this.onOpen(row);
  }
}

/** @type {(field: HTMLInputElement, results: Results, pages: FindData["pages"]) => () => void} */
function searchWhileTyping(field, results, pages) {
  let running = new AbortController();
  let timer = 0;
  /** @type {(text: string, signal: AbortSignal) => Promise<void>} */
  const ask = async (text, signal) => {
    try {
      const rows = [...matchingPages(text, pages), ...(await askServer(text, signal))];
      if (!signal.aborted) results.show(rows, rows.length ? "" : `Nothing is named “${text}”.`);
    } catch (error) {
      if (!signal.aborted) results.show(matchingPages(text, pages), String(error).slice(0, 300));
    }
  };
  return () => {
    running.abort();
    running = new AbortController();
    clearTimeout(timer);
    const [text, { signal }] = [field.value.trim(), running];
    results.show(text ? [] : matchingPages("", pages), text ? "Searching …" : "");
    if (text) timer = window.setTimeout(() => ask(text, signal), WAIT_MS);
  };
}

/** @type {(dialog: HTMLDialogElement, results: Results) => (event: KeyboardEvent) => void} */
function answerKeys(dialog, results) {
  return (event) => {
    event.stopPropagation(); // the keys of the page behind the dialog
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) results.move(step);
    else if (event.key === "Enter") results.openActive();
    else if (event.key === "Escape") {
      dialog.close();
    } // a search field would only be emptied
    else return;
    event.preventDefault();
  };
}

/** @param {FindData} data */
function buildDialog(data) {
  const field = h("input", {
    type: "search",
    role: "combobox",
    placeholder: "Id, record, file, dataset, set, tag or page",
    "aria-label": "Find by name",
    "aria-controls": "results",
    autocomplete: "off",
    maxLength: 200,
  });
  const results = new Results(field, (named) => {
    node.close();
    open(named);
  });
  const search = searchWhileTyping(field, results, data.pages);
  field.addEventListener("input", search);
  const node = h("dialog", { "aria-label": "Find by name" }, field, results.list, results.status);
  node.addEventListener("keydown", answerKeys(node, results));
  node.addEventListener("click", (event) => {
    if (event.target === node) node.close();
  });
  const show = () => {
    if (node.open) return;
    field.value = "";
    search();
    node.showModal();
  };
  return { node, show };
}

/** @type {(root: HTMLElement, data: FindData) => () => void} */
function buildFind(root, data) {
  const { node, show } = buildDialog(data);
  const label = [h("span", {}, "Find"), h("kbd", {}, "Ctrl K")];
  root.append(h("button", { class: "find", onclick: show, title: "Open by name (Ctrl K)" }, label), node);
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    show();
  };
  document.addEventListener("keydown", press, { capture: true });
  return () => document.removeEventListener("keydown", press, { capture: true });
}

/** @param {import("../dom.js").Component<FindData>} component */
export default function (component) {
  return mount(component, buildFind);
}
