// Makes elements. Text only ever enters by textContent, so that data can never become markup.

/** @typedef {Node | string | number | false | null | undefined} Leaf */
/** @typedef {Leaf | readonly (Leaf | readonly (Leaf | readonly Leaf[])[])[]} Child */
/** @typedef {HTMLElementEventMap} Events */
/** @typedef {{ [Name in keyof Events as `on${Name}`]?: (event: Events[Name]) => void }} Handlers */
/** @typedef {Handlers & { [name: string]: unknown }} Props */
/** @typedef {(name: string, value: unknown) => void} Send Sends a value to the script of the page. */
/** @typedef {{ tone: string, text: string, tip: string }} Badge Its tip is the question that it answers. */

/**
 * What Streamlit gives to a component at every draw.
 *
 * @template Data
 * @typedef {object} Component
 * @property {ParentNode} parentElement
 * @property {Data} data
 * @property {Send} setTriggerValue
 */

/**
 * An element with properties, listeners ("onclick") and children. Undefined, null and false are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (isPresent(value)) setProperty(node, name, value);
  }
  node.append(...childNodes(children));
  return node;
}

/** @param {unknown} value */
function isPresent(value) {
  return value !== undefined && value !== null && value !== false;
}

/** @type {(node: HTMLElement, name: string, value: unknown) => void} */
function setProperty(node, name, value) {
  if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  else if (name in node) Object.assign(node, { [name]: value });
  else node.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {readonly Child[]} children
 * @returns {(Node | string)[]}
 */
function childNodes(children) {
  const flat = /** @type {Child[]} */ (children.flat(Infinity));
  return flat.filter(isPresent).map((child) => (child instanceof Node ? child : String(child)));
}

let lastNumber = 0;

/** The number of a click: greater than those before, also than those of the page before a reload. */
export function numberClick() {
  lastNumber = Math.max(lastNumber + 1, Date.now());
  return lastNumber;
}

/**
 * What a component has drawn: how it ends, and how it takes new data without being built again.
 *
 * @typedef {object} Drawn
 * @property {() => void} stop
 * @property {(data: any) => void} [update] Of the fields that count only when the component is built.
 */
/** @typedef {{ send: Send, signature: string, isReleased: boolean, drawn: Drawn }} Instance */

/** @type {WeakMap<Element, Instance>} One instance per mounted element. */
const instances = new WeakMap();
const RELEASE_MS = 50;

/**
 * Draws a component into its element. A rerun of the page with the same data leaves what plays alone;
 * otherwise what `build` has returned ends what it drew before. It may take the data of every rerun.
 *
 * @template Data
 * @param {Component<Data>} component
 * @param {(root: HTMLElement, data: Data, send: Send) => Drawn | (() => void) | void} build
 * @param {(keyof Data)[]} initial Fields that count when the component is built, and rebuild nothing later.
 * @returns {() => void} Releases the component.
 */
export function mount(component, build, initial = []) {
  const root = /** @type {HTMLElement} */ (component.parentElement.querySelector(".root"));
  const instance = instances.get(root) ?? newInstance(root);
  const kept = Object.entries(component.data ?? {}).filter(
    ([name]) => !initial.some((other) => other === name),
  );
  const signature = JSON.stringify(kept);
  instance.send = (name, value) => component.setTriggerValue(name, value);
  instance.isReleased = false;
  if (instance.signature !== signature) {
    instance.drawn.stop();
    instance.signature = signature;
    root.replaceChildren();
    const built = build(root, component.data, (name, value) => instance.send(name, value)) ?? ignore;
    instance.drawn = typeof built === "function" ? { stop: built } : built;
  } else instance.drawn.update?.(component.data);
  return () => release(root, instance);
}

function ignore() {}

/**
 * @param {HTMLElement} root
 * @returns {Instance}
 */
function newInstance(root) {
  const instance = { send: ignore, signature: "", isReleased: false, drawn: { stop: ignore } };
  instances.set(root, instance);
  return instance;
}

/**
 * Ends an instance. The page calls this before every update too, and may show the old element for a while:
 * the end is when the element is gone and nothing has been drawn into it again.
 *
 * @param {HTMLElement} root
 * @param {Instance} instance
 */
function release(root, instance) {
  instance.isReleased = true;
  const check = () => {
    if (!instance.isReleased || instances.get(root) !== instance) return;
    if (root.isConnected) setTimeout(check, RELEASE_MS);
    else end(root, instance);
  };
  setTimeout(check, RELEASE_MS);
}

/**
 * @param {HTMLElement} root
 * @param {Instance} instance
 */
function end(root, instance) {
  instances.delete(root);
  instance.drawn.stop();
}

/** @param {Badge[]} badges */
export function buildBadges(badges) {
  return badges.map(({ tone, text, tip }) => h("span", { class: `badge notice ${tone}`, title: tip }, text));
}

/**
 * The first digits of the id of an episode, which say which one is meant; all of it is the tip.
 *
 * @param {string} id
 */
export function shortId(id) {
  const title = `Episode ${id}. The search box opens it by these digits.`;
  return h("code", { class: "short-id", title }, id.slice(0, 8));
}

/**
 * A code as words: "END_POSE" is "End pose".
 *
 * @param {string} code
 */
export function codeInWords(code) {
  return code.charAt(0) + code.slice(1).toLowerCase().replaceAll("_", " ");
}
