// A plot per signal: lines drawn once on a canvas, the cursor a line above it, the legend a table of values beside it.
import { h } from "../dom.js";

const COLOURS = [
  "#2563eb",
  "#dc2626",
  "#059669",
  "#d97706",
  "#7c3aed",
  "#0891b2",
  "#db2777",
  "#65a30d",
  "#475569",
  "#ea580c",
];
const LEFT = 46,
  BOTTOM = 18,
  TOP = 6,
  RIGHT = 8;

export function buildPlot(signal, duration, onSeek, onHover) {
  const lines = signal.groups.flatMap((group) => group.lines);
  lines.forEach((line, number) => {
    line.colour = COLOURS[number % COLOURS.length];
    line.shown = true;
  });
  const canvas = h("canvas", {}),
    cursor = h("div", { class: "cursor" }),
    ghost = h("div", { class: "ghost" });
  const area = h("div", { class: "area", tabIndex: -1 }, canvas, ghost, cursor);
  const legend = buildLegend(signal, lines, () => draw());
  const title = h(
    "div",
    { class: "plot-title" },
    signal.title,
    h("span", { class: "muted" }, lines.length > 1 ? ` ${lines.length} dimensions` : ""),
  );
  const node = h(
    "section",
    { class: "plot", "data-signal": signal.title },
    title,
    h("div", { class: "plot-row" }, area, legend.node),
  );
  const plot = { node, time: 0 };
  const x = (time) => LEFT + (time / duration) * (area.clientWidth - LEFT - RIGHT);
  const timeAt = (event) => {
    const box = area.getBoundingClientRect();
    return Math.max(
      0,
      Math.min(duration, ((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)) * duration),
    );
  };
  function draw() {
    const width = area.clientWidth,
      height = area.clientHeight,
      ratio = window.devicePixelRatio || 1;
    if (!width || !height) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const [low, high] = bounds(lines.filter((line) => line.shown));
    const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
    drawAxes(pen, width, height, low, high, y, x, duration);
    for (const line of lines) if (line.shown) drawLine(pen, line, signal.times, x, y);
    plot.place(plot.time);
  }
  plot.draw = draw;
  plot.place = (time) => {
    plot.time = time;
    cursor.style.transform = `translateX(${x(time)}px)`;
    legend.show(nearest(signal.times, time));
  };
  plot.ghost = (time) => {
    ghost.style.display = time === null ? "none" : "block";
    if (time !== null) {
      ghost.style.transform = `translateX(${x(time)}px)`;
      legend.show(nearest(signal.times, time));
    } else legend.show(nearest(signal.times, plot.time));
  };
  area.addEventListener("pointermove", (event) => {
    event.buttons & 1 ? onSeek(timeAt(event)) : onHover(timeAt(event));
  });
  area.addEventListener("pointerleave", () => onHover(null));
  area.addEventListener("pointerdown", (event) => {
    area.setPointerCapture(event.pointerId);
    onSeek(timeAt(event));
  });
  const observer = new ResizeObserver(draw);
  observer.observe(area);
  plot.stop = () => observer.disconnect();
  return plot;
}

function buildLegend(signal, lines, redraw) {
  const node = h("div", { class: "legend" }),
    cells = new Map();
  const paint = () => {
    for (const line of lines) cells.get(line).row.classList.toggle("off", !line.shown);
    redraw();
  };
  const only = (wanted) => {
    const already = lines.every((line) => line.shown === wanted.includes(line));
    for (const line of lines) line.shown = already || wanted.includes(line);
    paint();
  };
  for (const group of signal.groups) {
    if (group.name)
      node.append(
        h(
          "button",
          { class: "group", title: "Show only this group, or all again", onclick: () => only(group.lines) },
          group.name,
        ),
      );
    for (const line of group.lines) {
      const value = h("span", { class: "value" });
      const row = h(
        "button",
        {
          class: "entry",
          title: `${line.name}: click hides or shows, double click shows only this`,
          onclick: () => {
            line.shown = !line.shown;
            paint();
          },
          ondblclick: () => only([line]),
        },
        h("i", { style: `background:${line.colour}` }),
        h("span", { class: "name" }, line.name),
        value,
      );
      cells.set(line, { row, value });
      node.append(row);
    }
  }
  const show = (index) => {
    for (const line of lines) cells.get(line).value.textContent = written(line.values[index]);
  };
  return { node, show };
}

function written(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-3)
    ? value.toExponential(1)
    : value.toFixed(size >= 100 ? 1 : 3);
}
function bounds(lines) {
  let low = Infinity,
    high = -Infinity;
  for (const line of lines)
    for (const value of line.values)
      if (value !== null) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
  if (low > high) return [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 0.5;
  return [low - room, high + room];
}
function niceSteps(low, high, count) {
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const marks = [];
  for (let mark = Math.ceil(low / step) * step; mark <= high + step * 1e-6; mark += step)
    marks.push(Math.abs(mark) < step * 1e-6 ? 0 : mark);
  return marks;
}
function drawAxes(pen, width, height, low, high, y, x, duration) {
  const style = getComputedStyle(pen.canvas);
  pen.font = "11px " + style.fontFamily;
  pen.lineWidth = 1;
  pen.strokeStyle = style.getPropertyValue("--grid");
  pen.fillStyle = style.getPropertyValue("--axis");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const mark of niceSteps(low, high, Math.max(2, height / 48))) {
    pen.beginPath();
    pen.moveTo(LEFT, y(mark));
    pen.lineTo(width - RIGHT, y(mark));
    pen.stroke();
    pen.fillText(String(+mark.toPrecision(4)), LEFT - 6, y(mark));
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const mark of niceSteps(0, duration, Math.max(2, width / 90)))
    pen.fillText(`${+mark.toPrecision(4)} s`, Math.min(x(mark), width - 14), height - BOTTOM + 4);
}
function drawLine(pen, line, times, x, y) {
  pen.strokeStyle = line.colour;
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.beginPath();
  let down = false;
  line.values.forEach((value, index) => {
    if (value === null) {
      down = false;
      return;
    }
    down ? pen.lineTo(x(times[index]), y(value)) : pen.moveTo(x(times[index]), y(value));
    down = true;
  });
  pen.stroke();
}
function nearest(times, time) {
  let low = 0,
    high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    times[middle] <= time + 1e-6 ? (low = middle) : (high = middle - 1);
  }
  return low;
}
