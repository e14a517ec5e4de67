// What a tab keeps over a reload: the episodes that are ticked, and how far the page was scrolled.
import { mount } from "../dom.js";

/** @typedef {{ ticked: string[], all: unknown }} Selection All is a view of which everything is selected. */
/** @typedef {Selection & { workspace: string, isNew: boolean }} TabState IsNew before a tick is known. */

const TICKS = "ares.ticks.";
const SCROLL = "ares.scroll.";
const SCROLLER = "[data-testid=stMain]";
const WRITE_MS = 150;
const RESTORE_MS = 60_000;
const NEAR = 2;

/**
 * What is stored under a name; null where nothing is, or where the browser stores nothing.
 *
 * @param {string} name
 */
function readStored(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

/** @type {(name: string, value: unknown) => void} */
function store(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that stores nothing, or a full store: only a reload would miss it.
  }
}

/** The name of this page in the store: another second of a player is the same page. */
function pageName() {
  const url = new URL(location.href);
  url.searchParams.delete("t");
  url.searchParams.sort();
  return `${SCROLL}${url.pathname}?${url.searchParams}`;
}

/** @type {(data: TabState, send: import("../dom.js").Send) => void} */
function keepTicks(data, send) {
  const name = TICKS + data.workspace;
  if (!data.isNew) {
    store(name, { ticked: data.ticked, all: data.all });
    return;
  }
  const stored = readStored(name);
  if (stored && (stored.ticked.length > 0 || stored.all)) setTimeout(() => send("restored", stored));
}

// How far the page is still to be scrolled, in pixels; null where it is there, or the user has moved.
/** @type {number | null} */
let target = performance.getEntriesByType("navigation").some(isReturn) ? readStored(pageName()) : null;

/** @param {PerformanceEntry} entry */
function isReturn(entry) {
  const { type } = /** @type {PerformanceNavigationTiming} */ (entry);
  return type === "reload" || type === "back_forward";
}

function giveUp() {
  target = null;
}

function restoreScroll() {
  const scroller = document.querySelector(SCROLLER);
  if (target === null || performance.now() > RESTORE_MS) return;
  if (scroller) {
    scroller.scrollTop = target;
    // Not so long yet: the page is still being drawn.
    if (Math.abs(scroller.scrollTop - target) < NEAR) giveUp();
  }
  setTimeout(restoreScroll, WRITE_MS);
}

let timer = 0;

function noteScroll() {
  timer ||= window.setTimeout(() => {
    timer = 0;
    const scroller = document.querySelector(SCROLLER);
    if (scroller && target === null) store(pageName(), scroller.scrollTop);
  }, WRITE_MS);
}

/** @type {(_root: HTMLElement, data: TabState, send: import("../dom.js").Send) => () => void} */
function buildTabState(_root, data, send) {
  keepTicks(data, send);
  const listeners = new AbortController();
  const options = { signal: listeners.signal, capture: true, passive: true };
  for (const moved of ["wheel", "pointerdown", "keydown"]) document.addEventListener(moved, giveUp, options);
  document.addEventListener("scroll", noteScroll, options);
  restoreScroll();
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<TabState>} component */
export default function (component) {
  return mount(component, buildTabState);
}
