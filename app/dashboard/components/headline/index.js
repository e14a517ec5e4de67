// The head of an episode: its place in the list, buttons and keys that open its neighbours, title and notes.
import { buildBadges, h, mount, shortId } from "../dom.js";
import { isForPage } from "../keys.js";
import { addressOf, hasNext, planSteps } from "./paging.js";

/** @typedef {import("./paging.js").Neighbourhood} Neighbourhood */
/** @typedef {{ title: string, count: number, badges: import("../dom.js").Badge[] }} Head */
/** @typedef {Neighbourhood & Head} HeadlineData */

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
  return at < 0 ? "" : `${(at + 1).toLocaleString("en")} of ${data.count.toLocaleString("en")}`;
}

/** @type {(data: HeadlineData) => { node: HTMLElement, step: (step: number) => void }} */
function buildPager(data) {
  const label = h("span", { class: "place", role: "status" });
  const step = (/** @type {number} */ count) => {
    move(data, waiting + count);
    update();
  };
  const build = (/** @type {string} */ sign, /** @type {number} */ by, /** @type {string} */ title) =>
    h("button", { onclick: () => step(by), title, "aria-label": title }, sign);
  const previous = build("‹", -1, "Previous episode (Shift ←)");
  const next = build("›", 1, "Next episode (Shift →)");
  const update = () => {
    previous.disabled = !hasNext(data, wantedEpisode(), -1);
    next.disabled = !hasNext(data, wantedEpisode(), 1);
    label.textContent = placeText(data);
  };
  update();
  return { node: h("div", { class: "pager" }, previous, next, label), step };
}

/** @type {(root: HTMLElement, data: HeadlineData) => () => void} */
function buildHeadline(root, data) {
  if (wantedEpisode() === data.episode) opened = "";
  const pager = buildPager(data);
  const title = h("h2", { class: "text", title: data.title, dir: "auto" }, data.title);
  const id = h("span", { class: "badges" }, buildBadges(data.badges), shortId(data.episode));
  root.append(h("div", { class: "headline" }, pager.node, title, id));
  const listeners = new AbortController();
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = STEPS[/** @type {keyof STEPS} */ (event.key)];
    if (!step || !event.shiftKey || isForPage(event, false)) return;
    event.preventDefault();
    pager.step(step);
  };
  document.addEventListener("keydown", press, { signal: listeners.signal });
  if (waiting) pager.step(0);
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<HeadlineData>} component */
export default function (component) {
  return mount(component, buildHeadline);
}
