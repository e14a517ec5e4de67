// Keys and dropped images of the search box, which Streamlit draws, and a link that skips to the episodes.
import { h, mount } from "../dom.js";

const SEARCH_BOX = "input[placeholder^='Search by']";
const MAX_PIXELS = 768;

/** @returns {HTMLInputElement | null} */
function searchBox() {
  return document.querySelector(SEARCH_BOX);
}

/**
 * Whether a key is meant for what is being typed.
 *
 * @param {KeyboardEvent} event
 */
function isTyping(event) {
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(input|textarea|select)$/i.test(target.tagName))
  );
}

/** @param {KeyboardEvent} event */
function focusSearch(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  const box = searchBox();
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
}

/** @param {Event} event */
function isOverSearch(event) {
  const box = searchBox();
  const area = box && box.closest("[data-testid=stTextInput]");
  return Boolean(area && event.target instanceof Node && area.contains(event.target));
}

/**
 * An image as the data URL of a JPEG of at most 768 pixels.
 *
 * @param {Blob} file
 */
async function reduceImage(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MAX_PIXELS / Math.max(bitmap.width, bitmap.height));
  const canvas = h("canvas", {
    width: Math.round(bitmap.width * scale),
    height: Math.round(bitmap.height * scale),
  });
  const context = canvas.getContext("2d");
  if (context) context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}

/** @param {DragEvent} event */
function allowDrop(event) {
  if (isOverSearch(event)) event.preventDefault();
}

/** Moves the focus to the first card; the link of a page would be lost in the shadow of a component. */
function skipToEpisodes() {
  window.dispatchEvent(new CustomEvent("ares-focus-grid"));
}

/** @type {(root: HTMLElement, _data: object, send: import("../dom.js").Send) => () => void} */
function buildSearchInput(root, _data, send) {
  /** @param {DragEvent} event */
  const drop = (event) => {
    const file = event.dataTransfer && event.dataTransfer.files[0];
    if (!file || !isOverSearch(event)) return;
    event.preventDefault();
    reduceImage(file).then(
      (url) => send("dropped", url),
      () => send("dropped", "none"),
    );
  };
  root.append(h("button", { class: "skip", onclick: skipToEpisodes }, "Skip to the episodes"));
  document.addEventListener("keydown", focusSearch);
  document.addEventListener("dragover", allowDrop);
  document.addEventListener("drop", drop);
  return () => {
    document.removeEventListener("keydown", focusSearch);
    document.removeEventListener("dragover", allowDrop);
    document.removeEventListener("drop", drop);
  };
}

/** @param {import("../dom.js").Component<object>} component */
export default function (component) {
  return mount(component, buildSearchInput);
}
