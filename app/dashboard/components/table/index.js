// A table of text: it wraps, is searched by a field or the browser, is copied, and a row may have a button.
import { h, mount } from "../dom.js";
import { buildCopyButton } from "../tables.js";

/**
 * @typedef {object} TableData
 * @property {[label: string, name: string][]} columns
 * @property {[text: string, tip: string][][]} rows
 * @property {string} action What the button of a row says, or "".
 * @property {number} selected Row that is shown below the table, or -1.
 */

// A table with fewer rows is read at once.
const FEW = 4;

// A longer text has a column that is wide enough to read it.
const LONG = 40;

/** @param {string} text */
function buildText(text) {
  return h("div", { class: text.length > LONG ? "cell long" : "cell" }, text);
}

/** @typedef {import("../dom.js").Send} Send */
/** @type {(row: TableData["rows"][number], number: number, data: TableData, send: Send) => HTMLElement} */
function buildRow(row, number, { columns, action, selected }, send) {
  const cells = row.map(([text, tip], index) =>
    h("td", { title: tip || null, "data-cell": columns[index][1] }, buildText(text)),
  );
  const label = `${action}: ${row[0]?.[0] ?? ""}`;
  const onclick = () => send("selected", { row: number, at: Date.now() });
  const button = h("button", { onclick, "aria-label": label }, action);
  return h("tr", { class: number === selected ? "selected" : "" }, action && h("td", {}, button), cells);
}

/** @type {(data: TableData, rows: HTMLElement[]) => HTMLElement} */
function buildFinder(data, rows) {
  const counted = h("span", { class: "muted", role: "status" });
  const props = { type: "search", placeholder: "Find in this table", "aria-label": "Find in this table" };
  const field = h("input", { class: "finder", ...props });
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = data.rows.map((row) => row.map(([text]) => text.toLowerCase()).join("\n"));
    rows.forEach((row, index) => (row.hidden = !words.every((word) => texts[index].includes(word))));
    const count = rows.filter((row) => !row.hidden).length;
    counted.textContent = words.length ? `${count} of ${rows.length} rows` : "";
  });
  return h("span", { class: "finding" }, field, counted);
}

/** @type {(root: HTMLElement, data: TableData, send: import("../dom.js").Send) => void} */
function buildTable(root, data, send) {
  const rows = data.rows.map((row, number) => buildRow(row, number, data, send));
  const texts = () => [
    data.columns.map(([label]) => label),
    ...data.rows.filter((_, index) => !rows[index].hidden).map((row) => row.map(([text]) => text)),
  ];
  const heads = data.columns.map(([label, name]) => h("th", { scope: "col", title: name }, label));
  const head = h("tr", {}, data.action && h("td", {}), heads);
  const finder = rows.length >= FEW ? buildFinder(data, rows) : h("span", {});
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, rows));
  root.append(
    h("div", { class: "tools" }, finder, buildCopyButton(texts)),
    h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Table" }, table),
  );
}

/** @param {import("../dom.js").Component<TableData>} component */
export default function (component) {
  return mount(component, buildTable);
}
