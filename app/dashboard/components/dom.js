// Makes elements. Text only ever enters by textContent, so that data can never become markup.
function h(tag, props = {}, ...children) {
  const svg = ["svg", "path", "line", "rect", "g", "text"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.setAttribute("class", value);
    else if (name in node && !svg && name !== "list") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// A button that moves the player of the page.
function seekButton(second, label) {
  return h("button", { class: "second", title: "Show this moment", onclick: () => window.dispatchEvent(new CustomEvent("ares-seek", { detail: second })) }, label);
}

// One instance per mounted element: a rerun with the same data leaves what plays alone.
const instances = new WeakMap();
function mount(component, build) {
  const root = component.parentElement.querySelector(".root");
  const signature = JSON.stringify(component.data);
  let instance = instances.get(root);
  if (!instance) instances.set(root, (instance = { api: component }));
  instance.api = component;
  if (instance.signature !== signature) {
    if (instance.stop) instance.stop();
    instance.signature = signature;
    root.replaceChildren();
    instance.stop = build(root, component.data, (name, value) => instance.api.setTriggerValue(name, value)) || null;
  }
  // The page calls this before every update too; only when the element is gone a moment later is it the end.
  return () => setTimeout(() => {
    if (root.isConnected) return;
    if (instance.stop) instance.stop();
    instances.delete(root);
  }, 50);
}

function noticeBadges(notices) {
  return notices.map(({ tone, text }) => h("span", { class: `badge ${tone} notice` }, text));
}

const VERDICTS = {
  acceptable: ["good", "acceptable"], not_acceptable: ["bad", "not acceptable"], unsure: ["open", "unsure"],
  error: ["open", "grading failed"], ungraded: ["none", "ungraded"], no_caption: ["none", "no caption"],
};
function verdictBadge(grade) {
  const [tone, label] = VERDICTS[grade] || ["none", grade];
  return h("span", { class: `badge ${tone}` }, label);
}
