// Buttons and keys of the player.
import { h } from "../dom.js";
import { isForPage } from "../keys.js";
import { writeClock, writeSecond } from "./scale.js";

/** @typedef {import("./clock.js").Clock} Clock */
/** @typedef {(isShifted: boolean) => unknown} Action */
/**
 * What buttons and keys do beyond the clock.
 *
 * @typedef {object} Commands
 * @property {(factor: number | null) => void} zoom Null shows all of the episode.
 * @property {(step: number) => void} jump To the previous or next event.
 * @property {(step: number) => void} jumpToBoundary To the previous or next start or end of a segment.
 * @property {() => void} tick Ticks the episode, or unticks it.
 * @property {(number: number) => void} tag Sets the tag of a number, from 1, or takes it away.
 * @property {() => void} undo Takes back what was said or done last.
 * @property {() => void} help Shows or hides the keys.
 * @property {() => void} close Hides the keys and ends the repeated part.
 */

const HELP = [
  ["Space", "play or pause"],
  [", .", "one step back or on"],
  ["← →", "one second back or on"],
  ["Home End", "start or end"],
  ["E  Shift E", "next or previous event: gripper, intervention, finding, end"],
  ["B  Shift B", "next or previous start or end of a segment"],
  ["+ - 0", "plots and lanes: less time, more time, all"],
  ["[ ]", "loop from here, loop to here"],
  ["Shift drag", "loop a part"],
  ["L", "loop on or off"],
  ["Esc", "all of the episode in the loop"],
  ["Shift ← →", "previous or next episode; it goes on playing"],
  ["x", "tick the episode"],
  ["1 to 9", "tag it as the legend says"],
  ["u", "undo"],
  ["?", "this help"],
];
const TAG_KEYS = [..."123456789"];
const SPEEDS = [0.25, 0.5, 1, 2, 4];

export function buildHelp() {
  const rows = HELP.map(([key, what]) => h("div", {}, h("kbd", {}, key), h("span", {}, what)));
  const props = { class: "help", role: "region", "aria-label": "Keyboard", tabIndex: 0 };
  return h("div", props, rows);
}

/** @type {(label: string, title: string, action: () => void) => HTMLButtonElement} */
function buildButton(label, title, action) {
  return h("button", { title, "aria-label": title, onclick: action }, label);
}

/** @param {Clock} clock */
function buildSpeed(clock) {
  const options = SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`));
  const select = h("select", { title: "Speed", "aria-label": "Speed" }, options);
  select.addEventListener("change", () => {
    clock.speed = Number(select.value);
  });
  return select;
}

/** @param {Clock} clock */
function writeReadout(clock) {
  const isLong = clock.duration >= 120;
  const time = isLong
    ? `${writeClock(clock.time, clock.duration)} / ${writeSecond(clock.duration, clock.duration)}`
    : `${clock.time.toFixed(2)} s / ${clock.duration.toFixed(1)} s`;
  return `${time}, step ${clock.step + 1} of ${clock.steps}${writeLoop(clock)}`;
}

/** @param {Clock} clock */
function writeLoop({ loop, span }) {
  if (!loop) return "";
  return span ? `, loop ${span.start.toFixed(2)} to ${span.stop.toFixed(2)} s` : ", loop";
}

/**
 * @param {Clock} clock
 * @param {Commands} commands
 * @param {HTMLElement} moments
 */
export function buildTransport(clock, commands, moments) {
  const play = h("button", { class: "play", title: "Play or pause (Space)", onclick: () => clock.toggle() });
  const readout = h("span", { class: "readout" });
  const back = buildButton("‹", "One step back (,)", () => clock.toStep(clock.step - 1));
  const on = buildButton("›", "One step on (.)", () => clock.toStep(clock.step + 1));
  const keys = buildButton("?", "Keys (?)", commands.help);
  keys.classList.add("keys");
  const space = h("span", { class: "space" });
  const node = h(
    "div",
    { class: "transport" },
    play,
    back,
    on,
    readout,
    space,
    moments,
    buildSpeed(clock),
    keys,
  );
  const update = () => {
    play.textContent = clock.playing ? "❚❚" : "►";
    play.setAttribute("aria-label", clock.playing ? "Pause" : "Play");
    readout.textContent = writeReadout(clock);
  };
  return { node, update };
}

/**
 * @param {Clock} clock
 * @param {Commands} commands
 * @returns {Record<string, Action>}
 */
function keyActions(clock, commands) {
  return {
    " ": () => clock.toggle(),
    ",": () => clock.toStep(clock.step - 1),
    ".": () => clock.toStep(clock.step + 1),
    // With shift they open the previous or next episode: see the headline.
    ArrowLeft: (isShifted) => isShifted || clock.seek(clock.time - 1),
    ArrowRight: (isShifted) => isShifted || clock.seek(clock.time + 1),
    Home: () => clock.seek(0),
    End: () => clock.seek(clock.duration),
    l: () => clock.toggleLoop(),
    e: () => commands.jump(1),
    E: () => commands.jump(-1),
    b: () => commands.jumpToBoundary(1),
    B: () => commands.jumpToBoundary(-1),
    "+": () => commands.zoom(0.5),
    "-": () => commands.zoom(2),
    0: () => commands.zoom(null),
    "[": () => loopFrom(clock, clock.time, clock.span?.stop ?? clock.duration),
    "]": () => loopFrom(clock, clock.span?.start ?? 0, clock.time),
    "?": commands.help,
    x: () => commands.tick(),
    u: () => commands.undo(),
    ...Object.fromEntries(TAG_KEYS.map((key) => [key, () => commands.tag(Number(key))])),
    Escape: commands.close,
  };
}

/** @type {(clock: Clock, start: number, stop: number) => void} */
function loopFrom(clock, start, stop) {
  if (stop > start) clock.loopSpan({ start, stop });
}

/**
 * A listener for keys that leaves fields, and Space on a button, to the page.
 *
 * @param {Clock} clock
 * @param {Commands} commands
 * @returns {(event: KeyboardEvent) => void}
 */
export function keyListener(clock, commands) {
  const actions = keyActions(clock, commands);
  // Whether Tab has moved the focus since the player was opened: then Space on a button is a click.
  let isTabbed = false;
  return (event) => {
    const action = actions[event.key];
    isTabbed ||= event.key === "Tab";
    if (!action || isForPage(event, isTabbed)) return;
    event.preventDefault();
    action(event.shiftKey);
  };
}
