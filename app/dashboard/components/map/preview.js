// The picture and the instruction of the episode under the pointer.
import { h } from "../dom.js";

/** @typedef {{ id: string, instruction: string, dataset: string, poster: string }} Known */

const PREVIEW_MS = 80;
let shownId = "";

/**
 * @param {string} id
 * @returns {Promise<Known | null>}
 */
async function fetchEpisode(id) {
  const answer = await fetch(`/api/episodes/${id}`).catch(() => null);
  if (!answer?.ok) return null;
  const { instruction, dataset, media } = await answer.json();
  const [first] = /** @type {{ poster?: string }[]} */ (Object.values(media));
  return { id, instruction, dataset, poster: first?.poster ?? "" };
}

/** @param {string} source */
function buildImage(source) {
  const image = h("img", { src: source, alt: "", width: 192 });
  // A video that is not where it was leaves the text alone.
  image.addEventListener("error", () => image.remove());
  return image;
}

/**
 * Shows an episode beside a point of the canvas; "" hides it.
 *
 * @type {(box: HTMLElement, id: string, at: { x: number, y: number }) => void}
 */
export function showPreview(box, id, at) {
  if (id === shownId && !box.hidden === Boolean(id)) return;
  shownId = id;
  box.hidden ||= !id;
  if (!id) return;
  setTimeout(async () => {
    const episode = shownId === id && (await fetchEpisode(id));
    if (!episode || shownId !== id) return;
    const image = episode.poster ? [buildImage(episode.poster)] : [];
    box.replaceChildren(...image, h("b", {}, episode.instruction || id), h("span", {}, episode.dataset));
    box.dataset.episode = id;
    box.style.left = `${Math.max(0, Math.min(at.x + 14, (box.parentElement?.clientWidth ?? 0) - 216))}px`;
    box.style.top = `${Math.max(0, Math.min(at.y + 14, (box.parentElement?.clientHeight ?? 0) - 190))}px`;
    box.hidden = false;
  }, PREVIEW_MS);
}
