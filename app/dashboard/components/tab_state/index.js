// What a tab keeps over a reload: the episodes that are ticked.
import { mount } from "../dom.js";

/** @typedef {{ ticked: string[], all: unknown }} Selection All is a view of which everything is selected. */
/** @typedef {Selection & { workspace: string, isNew: boolean }} TabState IsNew before a tick is known. */

const TICKS = "ares.ticks.";

/**
 * What is stored under a name; null where nothing is, or where the browser stores nothing.
 *
 * @param {string} name
 */
function readStored(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

/** @type {(name: string, value: unknown) => void} */
function store(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // A browser that stores nothing, or a full store: only a reload would miss it.
  }
}

/** @type {(data: TabState, send: import("../dom.js").Send) => void} */
function keepTicks(data, send) {
  const name = TICKS + data.workspace;
  if (!data.isNew) {
    store(name, { ticked: data.ticked, all: data.all });
    return;
  }
  const stored = readStored(name);
  if (stored && (stored.ticked.length > 0 || stored.all)) setTimeout(() => send("restored", stored));
}

/** @param {import("../dom.js").Component<TabState>} component */
export default function (component) {
  return mount(component, (_root, data, send) => keepTicks(data, send));
}
