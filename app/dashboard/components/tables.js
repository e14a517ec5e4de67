// What every table of text has: a button that copies its rows, as a spreadsheet takes them.
import { h } from "./dom.js";

const SHOWN_MS = 2_000;

/** @param {string} text */
function toCell(text) {
  return text.replace(/[\t\r\n]+/g, " ");
}

/**
 * A button that copies rows: tabs between cells, a line for each row.
 *
 * @param {() => readonly (readonly string[])[]} rows The names of the columns first.
 */
export function buildCopyButton(rows) {
  const button = h("button", { class: "copy" }, "Copy the table");
  button.addEventListener("click", async () => {
    const lines = rows().map((row) => row.map(toCell).join("\t"));
    const isCopied = await navigator.clipboard.writeText(lines.join("\n")).then(
      () => true,
      () => false,
    );
    button.textContent = isCopied
      ? `Copied ${lines.length - 1} rows`
      : "The browser does not let a page copy";
    setTimeout(() => (button.textContent = "Copy the table"), SHOWN_MS);
  });
  return button;
}
