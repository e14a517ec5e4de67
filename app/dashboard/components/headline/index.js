// The head of an episode: its place in the list, buttons and keys that open its neighbours, title and notes.
import { buildBadges, h, mount, shortId } from "../dom.js";
import { isForPage } from "../keys.js";
import { markWords } from "../words.js";
import { addressOf, hasNext, planSteps } from "./paging.js";

/** @typedef {import("./paging.js").Neighbourhood} Neighbourhood */
/** @typedef {{ title: string, instruction: string, caption: string, notes: string[] }} Texts */
/** @typedef {Neighbourhood & Texts & { count: number, badges: import("../dom.js").Badge[] }} HeadlineData */

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
// Presses that wait until the page has drawn an episode near enough; they outlive every draw.
let waiting = 0;
// The address that this page has opened last, and that is not drawn yet.
let opened = "";

function wantedEpisode() {
  return new URL(location.href).searchParams.get("episode") ?? "";
}

/**
 * Opens an address in this page, as the button "back" of the browser does: the page follows the address.
 *
 * @param {string} address
 */
function openAddress(address) {
  // What was passed over was never seen, and is no stop for the button "back".
  if (opened === location.href) history.replaceState({}, "", address);
  else history.pushState({}, "", address);
  opened = location.href;
  window.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}

/**
 * @param {Neighbourhood} known
 * @param {number} steps
 */
function move(known, steps) {
  const { entry, rest } = planSteps(known, wantedEpisode(), steps);
  waiting = rest;
  if (entry) openAddress(addressOf(location.href, entry));
}

/** @param {HeadlineData} data */
function placeText(data) {
  const isDrawn = wantedEpisode() === data.episode;
  const at = isDrawn ? data.at : Number(new URL(location.href).searchParams.get("at") ?? -1);
  const text = `${(at + 1).toLocaleString("en")} of ${data.count.toLocaleString("en")}`;
  return at < 0 ? "" : `${isDrawn ? "" : "opening "}${text}`;
}

/** @type {(data: HeadlineData) => { node: HTMLElement, step: (step: number) => void }} */
function buildPager(data) {
  const label = h("span", { class: "place", role: "status" });
  const step = (/** @type {number} */ count) => {
    move(data, waiting + count);
    update();
  };
  const previous = h(
    "button",
    { onclick: () => step(-1), title: "Previous episode (Shift ←)" },
    "‹ Previous",
  );
  const next = h("button", { onclick: () => step(1), title: "Next episode (Shift →)" }, "Next ›");
  const update = () => {
    previous.disabled = !hasNext(data, wantedEpisode(), -1);
    next.disabled = !hasNext(data, wantedEpisode(), 1);
    label.textContent = placeText(data);
  };
  update();
  return { node: h("div", { class: "pager" }, previous, next, label), step };
}

/**
 * A text of two lines, with a button that shows the rest where there is more.
 *
 * @param {HTMLElement} text
 * @returns {[node: HTMLElement, stop: () => void]}
 */
function buildClamped(text) {
  const more = h("button", { class: "more", hidden: true, "aria-expanded": "false" }, "more");
  const node = h("div", { class: "clamped" }, text, more);
  more.addEventListener("click", () => {
    const isOpen = node.classList.toggle("open");
    more.textContent = isOpen ? "less" : "more";
    more.setAttribute("aria-expanded", String(isOpen));
  });
  const observer = new ResizeObserver(() => {
    if (!node.classList.contains("open")) more.hidden = text.scrollHeight <= text.clientHeight + 1;
  });
  observer.observe(text);
  return [node, () => observer.disconnect()];
}

/**
 * The title, the caption where it says something else, and the notes; words that only one has are marked.
 *
 * @param {HeadlineData} data
 */
function buildTexts({ title, instruction, caption, notes }) {
  const marked = instruction ? markWords(title, caption, "Not in the caption") : title;
  const differs = caption !== "" && caption !== title;
  const words = markWords(caption, instruction, "Not in the instruction");
  return [
    buildClamped(h("h2", { class: "text" }, marked)),
    ...(differs ? [buildClamped(h("p", { class: "text said" }, words))] : []),
    ...notes.map((note) => buildClamped(h("p", { class: "text" }, note))),
  ];
}

/** @type {(root: HTMLElement, data: HeadlineData) => () => void} */
function buildHeadline(root, data) {
  if (wantedEpisode() === data.episode) opened = "";
  const pager = buildPager(data);
  const texts = buildTexts(data);
  root.append(
    h(
      "div",
      { class: "headline" },
      pager.node,
      texts.map(([node]) => node),
      h("div", { class: "badges" }, buildBadges(data.badges), shortId(data.episode)),
    ),
  );
  const listeners = new AbortController();
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = STEPS[/** @type {keyof STEPS} */ (event.key)];
    if (!step || !event.shiftKey || isForPage(event, false)) return;
    event.preventDefault();
    pager.step(step);
  };
  document.addEventListener("keydown", press, { signal: listeners.signal });
  if (waiting) pager.step(0);
  return () => {
    listeners.abort();
    texts.forEach(([, stop]) => stop());
  };
}

/** @param {import("../dom.js").Component<HeadlineData>} component */
export default function (component) {
  return mount(component, buildHeadline);
}
