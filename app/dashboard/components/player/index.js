// The player: cameras, transport, timeline and plots of one episode on one clock.
import { h, mount } from "../dom.js";
import { Clock } from "./clock.js";
import { buildPlot } from "./plots.js";

const HELP = [
  ["Space", "play or pause"],
  [", .", "one step back or on"],
  ["← →", "one second back or on"],
  ["Home End", "start or end"],
  ["Shift ← →", "previous or next episode"],
  ["L", "loop"],
  ["?", "this help"],
];
const SPEEDS = [0.25, 0.5, 1, 2, 4];

function buildCamera(camera, clock, send) {
  const video = h("video", {
    muted: true,
    playsInline: true,
    preload: "auto",
    poster: camera.poster,
    "aria-label": `camera ${camera.name}`,
  });
  const note = h("div", { class: "note" });
  video.addEventListener("error", async () => {
    note.textContent = "this video cannot be played";
    const answer = await fetch(video.src).catch(() => null); // the server's reason is one line of text
    if (answer && answer.status === 422) note.textContent = await answer.text();
  });
  const node = h("figure", { class: "camera", "data-camera": camera.name }, video, note);
  node.append(
    h(
      "figcaption",
      {},
      h("b", {}, camera.name),
      h("span", { class: "muted" }, ` ${camera.about}`),
      camera.flags.map((flag) => h("span", { class: "badge bad" }, flag)),
      h("span", { class: "space" }),
      h(
        "button",
        {
          class: "alike",
          title: "Find moments that look like this frame",
          onclick: (event) => {
            event.stopPropagation();
            send("frame", `${camera.name}@${clock.time.toFixed(3)}`);
          },
        },
        "Find like this",
      ),
    ),
  );
  const start = () => {
    if (!video.src) video.src = camera.video;
    clock.follow(video, camera.rate);
  };
  const open = camera.flags.length === 0;
  node.classList.toggle("collapsed", !open);
  node.querySelector("figcaption").addEventListener("click", () => {
    node.classList.toggle("collapsed") ? clock.unfollow(video) : (start(), clock.seek(clock.time));
  });
  video.addEventListener("click", () => clock.toggle());
  if (open) start();
  return node;
}

function buildTimeline(data, clock, onHover) {
  const fill = h("div", { class: "fill" }),
    knob = h("div", { class: "knob" });
  const marks = data.marks.map((mark) =>
    h("div", {
      class: "mark",
      title: `${mark.seconds.toFixed(2)} s: ${mark.label}`,
      style: `left:${(mark.seconds / data.duration) * 100}%`,
    }),
  );
  const share = (seconds) => Math.max(0, Math.min(100, (seconds / data.duration) * 100));
  const spans = data.spans.map((span) =>
    h("div", {
      class: "span",
      title: `${span.start.toFixed(2)} to ${span.stop.toFixed(2)} s: ${span.label}`,
      style: `left:${share(span.start)}%;width:${share(span.stop) - share(span.start)}%`,
    }),
  );
  const bar = h(
    "div",
    {
      class: "timeline",
      role: "slider",
      tabIndex: 0,
      "aria-label": "time",
      "aria-valuemin": 0,
      "aria-valuemax": data.duration,
    },
    h("div", { class: "rail" }, fill),
    spans,
    marks,
    knob,
  );
  const timeAt = (event) => {
    const box = bar.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * data.duration;
  };
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    clock.seek(timeAt(event));
  });
  bar.addEventListener("pointermove", (event) => {
    event.buttons & 1 ? clock.seek(timeAt(event)) : onHover(timeAt(event));
  });
  bar.addEventListener("pointerleave", () => onHover(null));
  const place = () => {
    const share = `${(clock.time / data.duration) * 100}%`;
    fill.style.width = share;
    knob.style.left = share;
    bar.setAttribute("aria-valuenow", clock.time.toFixed(2));
  };
  return { node: bar, place };
}

function buildLanes(data, clock) {
  const share = (seconds) =>
    data.duration ? Math.max(0, Math.min(100, (seconds / data.duration) * 100)) : 0;
  const block = (lane, span) => {
    const text = `${lane.label} at ${span.start.toFixed(2)} s, ${span.label}`;
    return h("button", {
      class: "finding",
      title: text,
      "aria-label": text,
      style: `left:${share(span.start)}%;width:${share(span.stop) - share(span.start)}%`,
      onclick: () => clock.seek(span.start),
    });
  };
  return data.lanes.map((lane) =>
    h(
      "div",
      { class: `lane ${lane.severity}` },
      h("span", { class: "lane-label", title: lane.meaning }, `${lane.label}: ${lane.meaning}`),
      h(
        "div",
        { class: "lane-track" },
        lane.spans.map((span) => block(lane, span)),
      ),
    ),
  );
}

function buildTransport(clock, help) {
  const play = h("button", { class: "play", title: "Play or pause (Space)", onclick: () => clock.toggle() });
  const readout = h("span", { class: "readout" });
  const speed = h(
    "select",
    {
      title: "Speed",
      onchange: (event) => {
        clock.speed = Number(event.target.value);
      },
    },
    SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`)),
  );
  const loop = h(
    "button",
    {
      class: "loop",
      title: "Loop (L)",
      onclick: () => {
        clock.loop = !clock.loop;
        clock.onTick();
      },
    },
    "Loop",
  );
  const node = h(
    "div",
    { class: "transport" },
    play,
    h("button", { title: "One step back (,)", onclick: () => clock.toStep(clock.step - 1) }, "‹"),
    h("button", { title: "One step on (.)", onclick: () => clock.toStep(clock.step + 1) }, "›"),
    readout,
    h("span", { class: "space" }),
    speed,
    loop,
    h("button", { title: "Keyboard (?)", onclick: () => help.classList.toggle("shown") }, "?"),
  );
  const place = () => {
    play.textContent = clock.playing ? "❚❚" : "►";
    play.setAttribute("aria-label", clock.playing ? "Pause" : "Play");
    loop.classList.toggle("on", clock.loop);
    readout.textContent = `${clock.time.toFixed(2)} s / ${clock.duration.toFixed(1)} s, step ${clock.step + 1} of ${clock.steps}`;
  };
  return { node, place };
}

function keys(clock, help, send) {
  const actions = {
    " ": () => clock.toggle(),
    ",": () => clock.toStep(clock.step - 1),
    ".": () => clock.toStep(clock.step + 1),
    ArrowLeft: (shift) => (shift ? send("move", -1) : clock.seek(clock.time - 1)),
    ArrowRight: (shift) => (shift ? send("move", 1) : clock.seek(clock.time + 1)),
    Home: () => clock.seek(0),
    End: () => clock.seek(clock.duration),
    l: () => {
      clock.loop = !clock.loop;
      clock.onTick();
    },
    "?": () => help.classList.toggle("shown"),
    Escape: () => help.classList.remove("shown"),
  };
  return (event) => {
    const at = event.composedPath()[0];
    if (event.ctrlKey || event.metaKey || event.altKey || at.isContentEditable) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || (event.key === " " && at.tagName === "BUTTON"))
      return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action(event.shiftKey);
  };
}

function buildPlayer(root, data, send) {
  const help = h(
    "div",
    { class: "help" },
    h("b", {}, "Keyboard"),
    HELP.map(([key, what]) => h("div", {}, h("kbd", {}, key), h("span", {}, what))),
  );
  const clock = new Clock(
    data.duration,
    data.rate,
    () => parts.forEach((part) => part.place(clock.time)),
    data.stamps,
    data.paired_by_index,
  );
  const hover = (time) => plots.forEach((plot) => plot.ghost(time));
  const plots = data.signals.map((signal) =>
    buildPlot(signal, data.duration, (time) => clock.seek(time), hover),
  );
  const timeline = buildTimeline(data, clock, hover),
    transport = buildTransport(clock, help);
  const parts = [timeline, transport, ...plots];
  const cameras = h(
    "div",
    { class: `cameras n${Math.min(4, data.cameras.filter((camera) => !camera.flags.length).length)}` },
    data.cameras.map((camera) => buildCamera(camera, clock, send)),
  );
  const stage = h(
    "div",
    { class: plots.length ? "stage" : "stage alone" },
    cameras,
    plots.length
      ? h(
          "div",
          { class: "plots" },
          plots.map((plot) => plot.node),
        )
      : null,
  );
  root.append(
    h("div", { class: "player" }, stage, timeline.node, buildLanes(data, clock), transport.node, help),
  );
  clock.seek(data.start);
  const onKey = keys(clock, help, send),
    onSeek = (event) => {
      clock.pause();
      clock.seek(event.detail);
    };
  document.addEventListener("keydown", onKey);
  window.addEventListener("ares-seek", onSeek);
  return () => {
    clock.pause();
    plots.forEach((plot) => plot.stop());
    document.removeEventListener("keydown", onKey);
    window.removeEventListener("ares-seek", onSeek);
  };
}

export default function (component) {
  return mount(component, buildPlayer);
}
