// A grid of episodes: the poster shows the moment that was found, pointing at it plays the video from there.
const WAIT_MS = 120, LEAD_SECONDS = 0.5;

function preview(media, card) {
  let timer = null, video = null;
  const bar = h("div", { class: "bar" });
  const start = () => {
    // Its events may still come after the pointer has left.
    const playing = h("video", { muted: true, playsInline: true, loop: true, preload: "auto", src: card.video });
    playing.addEventListener("loadedmetadata", () => { playing.currentTime = Math.max(0, card.seconds - LEAD_SECONDS); playing.play().catch(() => {}); }, { once: true });
    playing.addEventListener("playing", () => playing.classList.add("ready"));
    playing.addEventListener("timeupdate", () => { bar.style.width = `${(playing.currentTime / playing.duration) * 100}%`; });
    video = playing;
    media.append(video, bar);
  };
  const stop = () => {
    clearTimeout(timer);
    if (!video) return;
    video.pause(); video.removeAttribute("src"); video.load();
    video.remove(); bar.remove(); video = null;
  };
  media.addEventListener("pointerenter", () => { timer = setTimeout(start, WAIT_MS); });
  media.addEventListener("pointerleave", stop);
  return stop;
}

function buildCard(card, send, stops) {
  const image = h("img", { src: card.poster, loading: "lazy", alt: "", draggable: false });
  image.addEventListener("error", () => image.replaceWith(h("div", { class: "lost" }, "no picture")));
  const media = h("div", { class: "media" }, image,
    card.moment && h("span", { class: "corner left" }, card.moment), h("span", { class: "corner right" }, card.length));
  stops.push(preview(media, card));
  const link = h("a", { class: "card", href: card.href, "data-episode": card.id, title: card.title }, media,
    h("div", { class: "body" },
      h("div", { class: "title" }, card.title),
      card.caption && h("div", { class: "caption" }, card.caption),
      h("div", { class: "row" }, verdictBadge(card.grade), card.success && h("span", { class: `badge ${card.success === "success" ? "good" : "bad"} outline` }, card.success), noticeBadges(card.notices)),
      h("div", { class: "meta" }, card.facts.join(" · "), card.assumed && h("span", { class: "assumed", title: "The source does not store its rate; this one is assumed" }, "assumed"))));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    send("opened", [card.id, card.at, card.seconds]);
  });
  return link;
}

function buildGrid(root, data, send) {
  const stops = [];
  root.append(h("div", { class: data.compact ? "grid compact" : "grid" }, data.cards.map((card) => buildCard(card, send, stops))));
  return () => stops.forEach((stop) => stop());
}

export default function (component) { return mount(component, buildGrid); }
