// Ticks of cards, and the keys of the grid: arrows move, Enter opens, x ticks, and shift ticks a range.
import { h, numberClick } from "../dom.js";

/** @typedef {{ node: HTMLElement, box: HTMLInputElement, id: string }} TickedCard */

/** @typedef {{ on: boolean, number: number }} Tick */

/** @type {Map<string, Tick>} By episode, what was ticked or unticked and the page does not know yet. */
const unknownTicks = new Map();
// The card that had the focus when the grid was last redrawn, as after a tick.
let focused = "";
// The card that was ticked last: a range goes from there, also after the grid was redrawn.
let lastTicked = "";

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
 */
export function buildTick(title) {
  return h("input", { type: "checkbox", class: "tick", "aria-label": `Tick ${title}` });
}

/**
 * Shows which cards are ticked: those that the page knows, and newer clicks.
 *
 * @param {readonly TickedCard[]} cards
 * @param {readonly string[]} ticked
 * @param {number} known
 */
export function showTicks(cards, ticked, known) {
  const all = withNewTicks(ticked, known);
  for (const { node, box, id } of cards) {
    box.checked = all.has(id);
    node.classList.toggle("ticked", box.checked);
  }
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
    box.addEventListener("click", (event) => {
      event.stopPropagation();
      tick(index, box.checked, event.shiftKey);
    });
  });
  addKeys(grid, cards, tick);
  const before = cards.find(({ id }) => id === focused);
  if (before) before.node.focus();
  focused = "";
  const focusFirst = () => cards[0]?.node.focus();
  window.addEventListener("ares-focus-grid", focusFirst);
  return () => {
    window.removeEventListener("ares-focus-grid", focusFirst);
    const active = cards.find(({ node }) => node.matches(":focus"));
    if (active) focused = active.id;
  };
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
