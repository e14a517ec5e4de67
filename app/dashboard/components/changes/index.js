// What others do while a page is open: jobs that run, and changes of data that it does not show yet.
import { h, mount } from "../dom.js";

/**
 * The version of the data that the page was drawn from, and the names of the workspace and of the dataset.
 *
 * @typedef {{ version: number, shown: string }} ChangesData
 */
/** @typedef {{ version: number, running: number }} State */

// What this page has done itself is drawn within this time.
const SETTLE_MS = 2_000;
const RETRY_MS = 5_000;
const AWAY = "The server does not answer; this page tries again.";

/** @type {(count: number, single: string, plural: string) => string} */
function countOf(count, single, plural) {
  return `${count.toLocaleString("en")} ${count === 1 ? single : plural}`;
}

function openJobs() {
  history.pushState({}, "", "/jobs");
  window.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}

/**
 * Listens until it is stopped, also when the server was away for a while.
 *
 * @type {(onState: (state: State) => void, onAway: (isAway: boolean) => void) => () => void}
 */
function listen(onState, onAway) {
  let socket = /** @type {WebSocket | null} */ (null);
  let timer = 0;
  const connect = () => {
    const protocol = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${protocol}://${location.host}/api/changes`);
    socket.onopen = () => onAway(false);
    socket.onmessage = (event) => onState(JSON.parse(event.data));
    socket.onclose = () => {
      onAway(true);
      timer = window.setTimeout(connect, RETRY_MS);
    };
  };
  connect();
  return () => {
    clearTimeout(timer);
    if (!socket) return;
    socket.onclose = null;
    socket.close();
  };
}

/**
 * @param {HTMLElement} root
 * @param {ChangesData} data
 * @param {import("../dom.js").Send} send
 */
function buildChanges(root, data, send) {
  let drawn = data.version;
  let state = /** @type {State | null} */ (null);
  let timer = 0;
  const jobs = h("button", { hidden: true, onclick: openJobs, title: "Open the page Jobs" });
  const changes = h("button", { hidden: true, onclick: () => send("shown", state?.version ?? 0) });
  const shown = h("span", { class: "shown", title: "Workspace and dataset" }, data.shown);
  const away = h("span", { class: "away", hidden: true }, AWAY);
  root.append(h("div", { class: "changes" }, h("span", { role: "status" }, away, changes, jobs), shown));
  const draw = () => {
    if (!state) return;
    const count = state.version - drawn;
    changes.hidden = count <= 0;
    changes.textContent = `${countOf(count, "new change", "new changes")}, show`;
  };
  const note = (/** @type {State} */ received) => {
    clearTimeout(timer);
    timer = window.setTimeout(draw, state ? SETTLE_MS : 0);
    state = received;
    jobs.hidden = received.running === 0;
    jobs.textContent = `${countOf(received.running, "job", "jobs")} running`;
  };
  const stop = listen(note, (isAway) => (away.hidden = !isAway));
  return {
    stop: () => {
      clearTimeout(timer);
      stop();
    },
    update: (/** @type {ChangesData} */ newer) => {
      drawn = newer.version;
      shown.textContent = newer.shown;
      draw();
    },
  };
}

/** @param {import("../dom.js").Component<ChangesData>} component */
export default function (component) {
  return mount(component, buildChanges, ["version", "shown"]);
}
