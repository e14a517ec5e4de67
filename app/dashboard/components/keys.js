// Which keys the page keeps for itself: those of fields, and Space on a button that Tab has reached.

/**
 * Whether a key is meant for a field, a button or the browser.
 *
 * @param {KeyboardEvent} event
 * @param {boolean} isTabbed Whether Tab has moved the focus: then Space on a button is a click.
 */
export function isForPage(event, isTabbed) {
  const target = event.composedPath()[0];
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return true;
  return event.key === " " && isTabbed && target.matches("button, summary, a");
}
