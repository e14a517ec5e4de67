// Buttons, lists and fields of the column beside the picture.
import { h } from "../dom.js";

/** @type {(key: string, label: string, title: string, on: boolean, act: () => void) => HTMLButtonElement} */
export function buildChoice(key, label, title, on, act) {
  const button = h("button", { class: "choice", title, "aria-label": title, onclick: act }, label);
  button.dataset.key = key;
  button.setAttribute("aria-pressed", String(on));
  return button;
}

/** @type {(name: string, options: string[], value: string, change: (to: string) => void) => HTMLElement} */
export function buildSelect(name, options, value, change) {
  const none = h("option", { value: "" }, name);
  const select = h(
    "select",
    { "aria-label": name },
    none,
    options.map((option) => h("option", { value: option }, option)),
  );
  select.value = value;
  select.dataset.key = name;
  select.addEventListener("change", () => change(select.value));
  return select;
}

/** @typedef {{ name: string, input: HTMLInputElement, node: HTMLElement }} Slot */
/** @type {(name: string, value: string) => Slot} */
export function buildSlot(name, value) {
  const input = h("input", { defaultValue: value, dir: "auto", "aria-label": `slot ${name}` });
  input.dataset.key = `slot ${name}`;
  input.addEventListener("keydown", (event) => leaveField(event, input, () => {}));
  return { name, input, node: h("label", {}, h("span", { class: "muted" }, name), input) };
}

/**
 * A field that saves when it is left by Enter, and takes back by Escape.
 *
 * @template {HTMLInputElement | HTMLTextAreaElement} F
 * @param {string} key
 * @param {F} field
 * @param {(to: string) => void} save
 * @returns {F}
 */
export function buildField(key, field, save) {
  const before = field.value;
  field.dataset.key = key;
  field.title = "Enter saves, Escape takes back";
  const back = () => {
    field.value = before;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  };
  let saved = before;
  // Also by Enter: what a draw has put back is no change to the browser.
  const keep = () => field.value !== saved && save((saved = field.value));
  /** @type {HTMLElement} */ (field).addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) keep();
    leaveField(event, field, back);
  });
  field.addEventListener("change", keep);
  return field;
}

/** @type {(event: KeyboardEvent, field: HTMLElement, back: () => void) => void} */
export function leaveField(event, field, back) {
  if (event.key === "Escape") back();
  else if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  field.blur();
}
