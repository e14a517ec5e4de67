// Hands what the checks find of an episode to its player, which is drawn before.
import { mount } from "../dom.js";

/** @typedef {{ episode: string, lanes: import("../player/lanes.js").Lane[] }} FindingsData */

const NAME = "ares-findings";

/** @type {(root: HTMLElement, data: FindingsData) => void} */
function sendFindings(_root, data) {
  // Kept, too: a player that is built later reads it.
  Reflect.set(window, NAME, data);
  window.dispatchEvent(new CustomEvent(NAME, { detail: data }));
}

/** @param {import("../dom.js").Component<FindingsData>} component */
export default function (component) {
  return mount(component, sendFindings);
}
