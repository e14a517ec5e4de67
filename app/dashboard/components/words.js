// The words of a text that another text does not have in the same order, marked.
import { h } from "./dom.js";

// Words that are compared; what stands behind them stays unmarked.
const MOST = 200;
const ARTICLES = ["a", "an", "the"];

/** @param {string} word */
function bare(word) {
  return word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}

/**
 * Whether each word of a text is one of the longest sequence of words that both texts have in this order.
 * Case, marks and articles do not count.
 *
 * @param {readonly string[]} words
 * @param {readonly string[]} others
 * @returns {boolean[]}
 */
export function sharedWords(words, others) {
  const [bareWords, bareOthers] = [words.map(bare), others.map(bare)];
  // lengths[i][j]: of the longest common sequence of bareWords[i:] and bareOthers[j:].
  const lengths = Array.from({ length: bareWords.length + 1 }, () => new Uint16Array(bareOthers.length + 1));
  for (let i = bareWords.length - 1; i >= 0; i--) {
    for (let j = bareOthers.length - 1; j >= 0; j--) {
      const longer = Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      lengths[i][j] = bareWords[i] === bareOthers[j] ? lengths[i + 1][j + 1] + 1 : longer;
    }
  }
  let j = 0;
  return bareWords.map((word, i) => {
    while (j < bareOthers.length && word !== bareOthers[j] && lengths[i][j + 1] > lengths[i + 1][j]) j++;
    const isShared = j < bareOthers.length && word === bareOthers[j];
    if (isShared) j++;
    return isShared || word === "" || ARTICLES.includes(word);
  });
}

/**
 * A text with marks around the words that another one lacks; without marks where there is no other.
 *
 * @type {(text: string, other: string, tip: string) => (string | HTMLElement)[]}
 */
export function markWords(text, other, tip) {
  const split = (/** @type {string} */ whole) => whole.split(/\s+/).filter(Boolean);
  const words = split(text);
  if (!other.trim() || words.length > MOST) return [text];
  const isShared = sharedWords(words, split(other).slice(0, MOST));
  /** @type {(string | HTMLElement)[]} */
  const parts = [];
  for (let start = 0, end = 0; start < words.length; start = end) {
    while (end < words.length && isShared[end] === isShared[start]) end++;
    const run = words.slice(start, end).join(" ");
    if (parts.length) parts.push(" ");
    parts.push(isShared[start] ? run : h("mark", { title: tip }, run));
  }
  return parts;
}
