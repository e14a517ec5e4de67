// Paging through a list of episodes. The address says which one is wanted, so that the last press wins.

/** @typedef {[id: string, at: number]} Entry An episode, and its position in the list, from 0. */
/**
 * @typedef {object} Neighbourhood
 * @property {string} episode The episode that is drawn.
 * @property {number} at Its position; -1 where it is not in the list.
 * @property {Entry[]} before Episodes before it, the nearest last.
 * @property {Entry[]} after Episodes behind it, the nearest first.
 * @property {boolean} begins Whether the list begins with the first of these.
 * @property {boolean} ends Whether the list ends with the last of these.
 */

/**
 * The steps that go as far as a neighbourhood is known, and those that wait for the next one.
 *
 * @param {Neighbourhood} known
 * @param {string} target The episode that the address names.
 * @param {number} steps
 * @returns {{ entry: Entry | null, rest: number }} Entry is null where nothing is to be opened.
 */
export function planSteps(known, target, steps) {
  /** @type {Entry[]} */
  const all = [...known.before, [known.episode, known.at], ...known.after];
  const from = all.findIndex(([id]) => id === target);
  // What is drawn is older than the address: the next draw knows its neighbours.
  if (from < 0) return { entry: null, rest: steps };
  const to = Math.max(0, Math.min(all.length - 1, from + steps));
  const isEnd = steps > 0 ? known.ends : known.begins;
  return { entry: to === from ? null : all[to], rest: isEnd ? 0 : steps - (to - from) };
}

/**
 * Whether an episode can be followed by another one in a direction.
 *
 * @param {Neighbourhood} known
 * @param {string} target
 * @param {number} step
 */
export function hasNext(known, target, step) {
  const { entry, rest } = planSteps(known, target, step);
  return entry !== null || rest !== 0;
}

/**
 * The address of another episode in the same list.
 *
 * @param {string} href
 * @param {Entry} entry
 */
export function addressOf(href, [id, at]) {
  const url = new URL(href);
  url.searchParams.set("episode", id);
  if (at < 0) url.searchParams.delete("at");
  else url.searchParams.set("at", String(at));
  url.searchParams.delete("t");
  return url.href;
}
