// The key of the search box, which Streamlit draws, and a link that skips to the episodes.
import { h, mount } from "../dom.js";
import { isForPage } from "../keys.js";

const SEARCH_BOX = "input[placeholder^='Search by']";

/** @param {KeyboardEvent} event */
function focusSearch(event) {
  const box = document.querySelector(SEARCH_BOX);
  if (event.key !== "/" || isForPage(event, false) || !(box instanceof HTMLInputElement)) return;
  event.preventDefault();
  box.focus();
  box.select();
}

// To the first card: the link of a page would be lost in the shadow of a component.
const skipToEpisodes = () => window.dispatchEvent(new CustomEvent("ares-focus-grid"));

/** @type {(root: HTMLElement) => () => void} */
function buildSearchInput(root) {
  root.append(h("button", { class: "skip", onclick: skipToEpisodes }, "Skip to the episodes"));
  document.addEventListener("keydown", focusSearch);
  return () => document.removeEventListener("keydown", focusSearch);
}

/** @param {import("../dom.js").Component<object>} component */
export default function (component) {
  return mount(component, buildSearchInput);
}
