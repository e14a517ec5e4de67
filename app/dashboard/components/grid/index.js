// A grid of episodes: the poster shows the moment that matched; pointing at it plays the video from there.
import { buildBadges, h, mount, shortId } from "../dom.js";
import { addTicks, buildTick, showTicks } from "./ticks.js";

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
 * @property {import("../dom.js").Badge | null} outcome
 * @property {import("../dom.js").Badge} grade Of the caption.
 * @property {import("../dom.js").Badge[]} badges Doubts and tags.
 * @property {string} lost Why a video cannot be shown; "" where all can.
 * @property {string} moment
 * @property {string} score Of a search, from 0 to 1; "" without a search.
 * @property {string} length
 * @property {string} value What the cards are ordered by, with name and unit; "" without an order.
 * @property {string[]} facts What does not hold for all cards.
 */
/**
 * Ticked is null in a grid without boxes; number is that of the newest click on a box that the page knows.
 *
 * @typedef {{ cards: Card[], size: string, ticked: string[] | null, number: number }} GridData
 */

const WAIT_MS = 120;
const LEAD_SECONDS = 0.5;

/**
 * Plays the video of a card while the pointer is over its picture, from just before the moment.
 *
 * @param {HTMLElement} media
 * @param {Card} card
 * @returns {() => void} Stops it.
 */
function addPreview(media, card) {
  const src = `${card.video}#t=${Math.max(0, card.seconds - LEAD_SECONDS)}`;
  /** @type {HTMLVideoElement | null} */
  let video = null;
  let timer = 0;
  const start = () => {
    video = h("video", { muted: true, playsInline: true, loop: true, autoplay: true, src });
    video.addEventListener("playing", () => video?.classList.add("ready"));
    media.append(video);
  };
  const stop = () => {
    clearTimeout(timer);
    video?.removeAttribute("src");
    video?.load();
    video?.remove();
    video = null;
  };
  media.addEventListener("pointerenter", () => {
    stop();
    if (card.video) timer = window.setTimeout(start, WAIT_MS);
  });
  media.addEventListener("pointerleave", stop);
  return stop;
}

/** @type {Record<string, string>} By the tone of a grade. */
const SIGNS = { good: "✓", bad: "✗", open: "?" };

/** @param {Card} card */
function buildMedia(card) {
  const lost = h("div", { class: "lost" }, card.lost || "no picture");
  const image = h("img", { src: card.poster, loading: "lazy", alt: "", draggable: false });
  image.addEventListener("error", () => image.replaceWith(lost));
  const moment = card.moment && h("span", { class: "corner moment" }, card.moment);
  const title = "How like the search it is, from 0 to 1";
  const score = card.score && h("span", { class: "corner score", title }, card.score);
  const outcome = card.outcome && h("span", { class: "corner left" }, buildBadges([card.outcome]));
  const gone =
    card.poster && card.lost && h("span", { class: "corner gone", title: card.lost }, "video lost");
  const length = h("span", { class: "corner right" }, card.length);
  return h("div", { class: "media" }, card.poster ? image : lost, score, moment, gone, outcome, length);
}

/**
 * What is shown while the pointer or the focus is on a card.
 *
 * @param {Card} card
 */
function buildMore({ caption, instruction, grade, badges, facts, id }) {
  const own = caption && caption !== instruction && h("div", { dir: "auto" }, caption);
  const graded = h("span", { class: `badge ${grade.tone}`, title: grade.tip }, `caption ${grade.text}`);
  const about = h(
    "div",
    { class: "meta" },
    facts.map((fact) => `${fact} · `),
    shortId(id),
  );
  return h(
    "div",
    { class: "rest" },
    own,
    h("div", { class: "row" }, caption && graded, buildBadges(badges)),
    about,
  );
}

/**
 * @param {Card} card
 * @param {import("../dom.js").Send} send
 * @param {(() => void)[]} stops
 */
function buildCard(card, send, stops) {
  const media = buildMedia(card);
  stops.push(addPreview(media, card));
  const { tone, text, tip } = card.grade;
  const props = {
    class: `sign ${tone}`,
    title: `${tip} ${text}`,
    role: "img",
    "aria-label": `caption ${text}`,
  };
  const sign = SIGNS[tone] && h("span", props, SIGNS[tone]);
  const title = h("div", { class: "title", dir: "auto" }, card.title);
  const value = card.value && h("div", { class: "value" }, card.value);
  const body = h("div", { class: "body" }, h("div", { class: "line" }, title, sign), value);
  const link = h(
    "a",
    { class: "card", href: card.href, "data-episode": card.id },
    media,
    body,
    buildMore(card),
  );
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

/** @typedef {import("../dom.js").Drawn} Drawn */
/** @type {(root: HTMLElement, data: GridData, send: import("../dom.js").Send) => Drawn} */
function buildGrid(root, data, send) {
  /** @type {(() => void)[]} */
  const stops = [];
  const stop = () => stops.forEach((end) => end());
  const nodes = data.cards.map((card) => buildCard(card, send, stops));
  if (!data.ticked) {
    root.append(h("div", { class: `grid ${data.size}` }, nodes));
    return { stop };
  }
  const cards = data.cards.map(({ id, title }, index) => ({ node: nodes[index], box: buildTick(title), id }));
  const cells = cards.map(({ node, box }) => h("div", { class: "cell" }, node, box));
  const grid = h("div", { class: "grid" }, cells);
  root.append(grid);
  stops.push(addTicks(grid, cards, send));
  const update = (/** @type {GridData} */ { ticked, number }) => showTicks(cards, ticked ?? [], number);
  update(data);
  return { stop, update };
}

/** @param {import("../dom.js").Component<GridData>} component */
export default function (component) {
  return mount(component, buildGrid, ["ticked", "number"]);
}
