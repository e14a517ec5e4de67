// The episodes as rows of text that wraps, can be searched by the browser, and is copied as a table.
import { h, shortId } from "../dom.js";
import { buildCopyButton } from "../tables.js";

/** @typedef {import("./index.js").Card} Card */
/** @typedef {import("./ticks.js").TickedCard} TickedCard */

/**
 * @param {readonly Card[]} cards
 * @param {readonly TickedCard[]} ticked Link and box of each card.
 */
export function buildTable(cards, ticked) {
  const heads = (cards[0]?.cells ?? []).map(([label, , column]) =>
    h("th", { scope: "col", title: column }, label),
  );
  const first = ["tick", "record", "id"].map((name) => h("th", { scope: "col" }, name));
  const rows = cards.map((card, index) => buildRow(card, ticked[index]));
  const table = h("table", {}, h("thead", {}, h("tr", {}, first, heads)), h("tbody", {}, rows));
  const texts = () => [
    ["record", "id", ...(cards[0]?.cells ?? []).map(([label]) => label)],
    ...cards.map((card) => [card.key ?? "", card.id, ...(card.cells ?? []).map(([, text]) => text)]),
  ];
  return h("div", { class: "table" }, buildCopyButton(texts), h("div", { class: "scroll" }, table));
}

/** @type {(card: Card, ticked: TickedCard) => HTMLElement} */
function buildRow(card, { node, box }) {
  const cells = (card.cells ?? []).map(([, text, column]) => h("td", { "data-cell": column }, text));
  return h("tr", {}, h("td", {}, box), h("th", { scope: "row" }, node), h("td", {}, shortId(card.id)), cells);
}
