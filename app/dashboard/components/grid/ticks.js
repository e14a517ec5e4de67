// Ticks of cards, and the keys of the grid: arrows move, Enter opens, x ticks, and shift ticks a range.
import { h, numberClick } from "../dom.js";
import { isForPage } from "../keys.js";

/** @typedef {{ node: HTMLElement, box: HTMLInputElement, id: string }} TickedCard */

/** @typedef {{ on: boolean, number: number }} Tick */

/** @type {Map<string, Tick>} By episode, what was ticked or unticked and the page does not know yet. */
const unknownTicks = new Map();
// The card that had the focus when the grid was last redrawn, as after a tick.
let focused = "";
// The card that was ticked last: a range goes from there, also after the grid was redrawn.
let lastTicked = "";
// The card on whose box the mouse was pressed, until it is released: the grid may be redrawn in between.
let pressed = "";

/**
 * The cards between two positions, both included.
 *
 * @param {readonly TickedCard[]} cards
 * @param {number} from
 * @param {number} to
 */
export function cardRange(cards, from, to) {
  return cards.slice(Math.min(from, to), Math.max(from, to) + 1);
}

/**
 * The card that a key moves to.
 *
 * @param {string} key
 * @param {number} index Of the card that has the focus.
 * @param {number} count
 * @param {number} columns Cards in a row.
 */
export function nextIndex(key, index, count, columns) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const step = steps[/** @type {keyof steps} */ (key)];
  if (step === undefined) return -1;
  const target = index + step;
  return target < 0 || target >= count ? index : target;
}

/**
 * The episodes that are ticked, with the clicks that the page does not know yet.
 *
 * @param {readonly string[]} ticked Those that the page knows.
 * @param {number} known Number of the newest click that it knows.
 */
export function withNewTicks(ticked, known) {
  const all = new Set(ticked);
  for (const [id, { on, number }] of unknownTicks) {
    if (number <= known) unknownTicks.delete(id);
    else if (on) all.add(id);
    else all.delete(id);
  }
  return all;
}

/** @param {readonly TickedCard[]} cards */
function countColumns(cards) {
  const topOf = (/** @type {TickedCard} */ { node }) => node.getBoundingClientRect().top;
  const next = cards.findIndex((card) => topOf(card) > topOf(cards[0]) + 1);
  return next < 0 ? cards.length : next;
}

/**
 * A box that ticks a card; a click with shift ticks all from the last one.
 *
 * @param {string} title
 * @param {boolean} checked
 */
export function buildTick(title, checked) {
  return h("input", { type: "checkbox", class: "tick", checked, "aria-label": `Tick ${title}` });
}

/**
 * Lets boxes and keys tick the cards of a grid.
 *
 * @param {HTMLElement} grid
 * @param {readonly TickedCard[]} cards
 * @param {import("../dom.js").Send} send
 * @returns {() => void} Ends it.
 */
export function addTicks(grid, cards, send) {
  /** @type {(index: number, on: boolean, isRange: boolean) => void} */
  const tick = (index, on, isRange) => {
    const last = cards.findIndex(({ id }) => id === lastTicked);
    const changed = isRange && last >= 0 ? cardRange(cards, last, index) : [cards[index]];
    for (const card of changed) {
      card.box.checked = on;
      card.node.classList.toggle("ticked", on);
      unknownTicks.set(card.id, { on, number: numberClick() });
    }
    lastTicked = cards[index].id;
    // With all that the page does not know yet: of two messages it may see only the later one.
    send(
      "ticked",
      [...unknownTicks].map(([id, click]) => ({ id, ...click })),
    );
  };
  cards.forEach(({ box }, index) => {
    box.addEventListener("pointerdown", (event) => {
      if (!event.button) pressed = cards[index].id;
    });
    box.addEventListener("click", (event) => {
      event.stopPropagation();
      pressed = "";
      tick(index, box.checked, event.shiftKey);
    });
  });
  addKeys(grid, cards, tick);
  const stopReleases = tickReleases(cards, tick);
  const before = cards.find(({ id }) => id === focused);
  if (before) before.node.focus();
  focused = "";
  const stopStart = startByArrows(cards);
  return () => {
    stopStart();
    stopReleases();
    const active = cards.find(({ node }) => node.matches(":focus"));
    if (active) focused = active.id;
  };
}

/**
 * Ticks a box that was redrawn under a pressed mouse and gets no click: what is released over it counts.
 *
 * @param {readonly TickedCard[]} cards
 * @param {(index: number, on: boolean, isRange: boolean) => void} tick
 * @returns {() => void} Ends it.
 */
function tickReleases(cards, tick) {
  /** @type {(event: PointerEvent) => void} */
  const tickReleased = (event) => {
    const index = cards.findIndex(({ box }) => box === event.composedPath()[0]);
    // A click of the same release comes first.
    setTimeout(() => {
      if (pressed && cards[index]?.id === pressed) tick(index, !cards[index].box.checked, event.shiftKey);
      pressed = "";
    });
  };
  window.addEventListener("pointerup", tickReleased);
  return () => window.removeEventListener("pointerup", tickReleased);
}

/**
 * Lets the arrows move between the cards of a grid, and x tick the card that has the focus.
 *
 * @param {HTMLElement} grid
 * @param {readonly TickedCard[]} cards
 * @param {(index: number, on: boolean, isRange: boolean) => void} tick
 */
function addKeys(grid, cards, tick) {
  grid.addEventListener("keydown", (event) => {
    const index = cards.findIndex(({ node }) => node.contains(/** @type {Node} */ (event.target)));
    if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = nextIndex(event.key, index, cards.length, countColumns(cards));
    if (event.key.toLowerCase() === "x") tick(index, !cards[index].box.checked, event.shiftKey);
    else if (target >= 0) cards[target].node.focus();
    else return;
    event.preventDefault();
  });
}

// What takes the arrows for itself.
const OWN_ARROWS = "a, button, summary, video, dialog, [role]:not([role=main])";

/**
 * Lets an arrow move to the first card in sight while nothing else has the focus.
 *
 * @param {readonly TickedCard[]} cards
 * @returns {() => void} Ends it.
 */
function startByArrows(cards) {
  /** @type {(event: KeyboardEvent) => void} */
  const press = (event) => {
    const target = event.composedPath()[0];
    if (event.defaultPrevented || event.shiftKey || isForPage(event, false)) return;
    const isOwn = target instanceof Element && target.closest(OWN_ARROWS);
    if (isOwn || nextIndex(event.key, 0, 1, 1) < 0) return;
    const first = cards.find(({ node }) => node.getBoundingClientRect().bottom > 0);
    if (!first) return;
    first.node.focus();
    event.preventDefault();
  };
  const focusFirst = () => cards.length && cards[0].node.focus();
  window.addEventListener("ares-focus-grid", focusFirst);
  document.addEventListener("keydown", press);
  return () => {
    window.removeEventListener("ares-focus-grid", focusFirst);
    document.removeEventListener("keydown", press);
  };
}
