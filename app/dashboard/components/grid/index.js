// A grid of episodes: the poster shows the moment that matched; pointing at it plays the video from there.
import { buildBadges, h, mount, shortId } from "../dom.js";
import { markWords } from "../words.js";
import { buildTable } from "./table.js";
import { addTicks, buildTick, withNewTicks } from "./ticks.js";

/**
 * @typedef {object} Card
 * @property {string} id
 * @property {number} at Position in the results.
 * @property {number} seconds The moment that matched.
 * @property {string} href
 * @property {string} poster
 * @property {string} video
 * @property {string} title
 * @property {string} caption
 * @property {string} instruction
 * @property {import("../dom.js").Badge[]} badges
 * @property {string} moment
 * @property {string} score Of a search, from 0 to 1; "" without a search.
 * @property {string} length
 * @property {string} value What the cards are ordered by, with name and unit; "" without an order.
 * @property {string[]} facts
 * @property {boolean} assumed Whether the rate is assumed.
 * @property {string} [key] Its record in the source; of a table only.
 * @property {[label: string, text: string, column: string][]} [cells] Of a table only.
 */
/**
 * Ticked is null in a grid without boxes; number is that of the newest click on a box that the page knows.
 *
 * @typedef {{ cards: Card[], size: string, ticked: string[] | null, number: number }} GridData
 */

const WAIT_MS = 120;
const LEAD_SECONDS = 0.5;

/**
 * Plays the video of a card while the pointer is over its picture.
 *
 * @param {HTMLElement} media
 * @param {Card} card
 * @returns {() => void} Stops it.
 */
function addPreview(media, card) {
  const bar = h("div", { class: "bar" });
  /** @type {HTMLVideoElement | null} */
  let video = null;
  let timer = 0;
  const start = () => {
    video = buildPreview(card, bar);
    media.append(video, bar);
  };
  const stop = () => {
    clearTimeout(timer);
    if (video) endVideo(video);
    bar.remove();
    video = null;
  };
  media.addEventListener("pointerenter", () => {
    stop();
    if (!card.video) return;
    timer = window.setTimeout(start, WAIT_MS);
  });
  media.addEventListener("pointerleave", stop);
  return stop;
}

/**
 * A video that plays from just before the moment. Its events may still come after the pointer has left.
 *
 * @param {Card} card
 * @param {HTMLElement} bar
 */
function buildPreview(card, bar) {
  const video = h("video", { muted: true, playsInline: true, loop: true, preload: "auto", src: card.video });
  const start = () => {
    video.currentTime = Math.max(0, card.seconds - LEAD_SECONDS);
    video.play().catch(() => {});
  };
  video.addEventListener("loadedmetadata", start, { once: true });
  video.addEventListener("playing", () => video.classList.add("ready"));
  video.addEventListener("timeupdate", () => {
    bar.style.width = `${(video.currentTime / video.duration) * 100}%`;
  });
  return video;
}

/** @param {HTMLVideoElement} video */
function endVideo(video) {
  video.pause();
  video.removeAttribute("src");
  video.load();
  video.remove();
}

/** @param {Card} card */
function buildMedia(card) {
  const lost = h("div", { class: "lost" }, "no picture");
  const image = h("img", { src: card.poster, loading: "lazy", alt: "", draggable: false });
  image.addEventListener("error", () => image.replaceWith(lost));
  const moment = card.moment && h("span", { class: "corner left" }, card.moment);
  const title = "How like the search it is, from 0 to 1";
  const score = card.score && h("span", { class: "corner score", title }, card.score);
  return h(
    "div",
    { class: "media" },
    card.poster ? image : lost,
    score,
    moment,
    h("span", { class: "corner right" }, card.length),
  );
}

/** @param {Card} card */
function buildFacts(card) {
  const title = "The source does not store its rate; this rate is assumed";
  const assumed = card.assumed && h("span", { class: "assumed", title }, "assumed");
  return h("div", { class: "meta" }, `${card.facts.join(" · ")} · `, shortId(card.id), assumed);
}

/**
 * @param {Card} card
 * @param {import("../dom.js").Send} send
 * @param {(() => void)[]} stops
 */
function buildCard(card, send, stops) {
  const media = buildMedia(card);
  stops.push(addPreview(media, card));
  const marked = markWords(card.caption, card.instruction, "Not in the instruction");
  const caption = card.caption && h("div", { class: "caption" }, marked);
  const title = h("div", { class: "title" }, card.title);
  const badges = h("div", { class: "row" }, buildBadges(card.badges));
  const value = card.value && h("div", { class: "value" }, card.value);
  const body = h("div", { class: "body" }, title, value, caption, badges, buildFacts(card));
  const props = { class: "card", href: card.href, "data-episode": card.id, title: card.title };
  const link = h("a", props, media, body);
  openByClick(link, card, send);
  return link;
}

/** @type {(link: HTMLElement, card: Card, send: import("../dom.js").Send) => void} */
function openByClick(link, card, send) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    send("opened", [card.id, card.at, card.seconds]);
  });
}

/** @type {(card: Card, send: import("../dom.js").Send) => HTMLElement} */
function buildRowLink(card, send) {
  const link = h("a", { class: "record", href: card.href, "data-episode": card.id }, card.key || card.title);
  openByClick(link, card, send);
  return link;
}

/** @type {(root: HTMLElement, data: GridData, send: import("../dom.js").Send) => () => void} */
function buildGrid(root, data, send) {
  /** @type {(() => void)[]} */
  const stops = [];
  const isTable = data.size === "table";
  const nodes = data.cards.map((card) => (isTable ? buildRowLink(card, send) : buildCard(card, send, stops)));
  if (!data.ticked) {
    root.append(h("div", { class: `grid ${data.size}` }, nodes));
    return () => stops.forEach((stop) => stop());
  }
  const ticked = withNewTicks(data.ticked, data.number);
  const cards = data.cards.map((card, index) => {
    const isTicked = ticked.has(card.id);
    nodes[index].classList.toggle("ticked", isTicked);
    return { node: nodes[index], box: buildTick(card.title, isTicked), id: card.id };
  });
  const cells = () => cards.map(({ node, box }) => h("div", { class: "cell" }, node, box));
  const grid = isTable ? buildTable(data.cards, cards) : h("div", { class: `grid ${data.size}` }, cells());
  root.append(grid);
  stops.push(addTicks(grid, cards, send));
  return () => stops.forEach((stop) => stop());
}

/** @param {import("../dom.js").Component<GridData>} component */
export default function (component) {
  return mount(component, buildGrid);
}
