// One clock for every camera and plot. Videos follow it: nudged by speed, set right by a seek when far off;
// it stands still while one of them has no frame yet, so that cameras never drift apart.
const SEEK_OFF = 0.25, NUDGE_OFF = 0.02, INTO_FRAME = 0.001, SLOWEST = 0.0625, FASTEST = 16;

class Clock {
  // stamps: seconds of the steps, where these are not even; byIndex: frame i of every video belongs to step i.
  constructor(duration, rate, onTick, stamps = [], byIndex = false) {
    this.duration = duration; this.rate = rate; this.onTick = onTick; this.stamps = stamps; this.byIndex = byIndex;
    this.videos = []; this.rates = new Map(); this.time = 0; this.playing = false; this.speed = 1; this.loop = false; this.waiting = false;
  }
  // rate: frames per second of the video.
  follow(video, rate) {
    this.videos.push(video); this.rates.set(video, rate);
    video.addEventListener("loadedmetadata", () => { video.currentTime = this.inside(video); });
  }
  unfollow(video) { this.videos = this.videos.filter((other) => other !== video); video.pause(); }
  inside(video) {
    const end = Number.isFinite(video.duration) ? video.duration - 0.002 : this.duration;
    return Math.max(0, Math.min(this.videoTime(video) + INTO_FRAME, end));
  }
  videoTime(video) {
    return this.byIndex ? (this.step + this.inFrame(video).share) / this.rates.get(video) : this.time;
  }
  // Where paired by index, a video shows frame i for as long as step i lasts: how much of the frame has passed, and the
  // seconds of the video in a second of the clock. Of a step longer than two frames it stands in the middle, pace 0.
  inFrame(video) {
    const step = this.step, start = this.stamps[step], rate = this.rates.get(video);
    const passed = Math.max(0, this.time - start) * rate;
    const length = Math.max(1e-6, (this.stamps[step + 1] ?? this.duration) - start) * rate;
    if (length <= 2) return { share: Math.min(0.99, passed / length), pace: 1 / length };
    const share = Math.max(Math.min(0.5, passed), 1 - (length - passed));
    return { share: Math.min(0.99, share), pace: share === 0.5 ? 0 : 1 };
  }
  get step() {
    if (!this.stamps.length) return Math.min(this.steps - 1, Math.floor(this.time * this.rate + 1e-6));
    let low = 0, high = this.stamps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.stamps[middle] <= this.time + 1e-6) low = middle + 1; else high = middle;
    }
    return Math.max(0, low - 1);
  }
  get steps() { return this.stamps.length || Math.max(1, Math.round(this.duration * this.rate)); }
  seek(time) {
    this.time = Math.max(0, Math.min(time, this.duration));
    this.place();
    this.onTick();
  }
  place() { for (const video of this.videos) if (video.readyState) video.currentTime = this.inside(video); }
  toStep(step) {
    const inside = Math.max(0, Math.min(step, this.steps - 1));
    this.pause(); this.seek(this.stamps.length ? this.stamps[inside] : inside / this.rate);
  }
  toggle() { this.playing ? this.pause() : this.play(); }
  play() {
    if (this.time >= this.duration - 1e-3) this.seek(0);
    this.playing = true; this.last = performance.now();
    this.frame = requestAnimationFrame(() => this.tick());
    this.onTick();
  }
  pause() {
    const played = this.playing;
    this.playing = false; cancelAnimationFrame(this.frame);
    for (const video of this.videos) video.pause();
    if (played) this.place(); // what plays is drawn some milliseconds ahead or behind
    this.onTick();
  }
  tick() {
    if (!this.playing) return;
    const now = performance.now(), passed = Math.min(0.25, (now - this.last) / 1000) * this.speed;
    this.last = now;
    this.waiting = this.videos.some((video) => !video.error && video.readyState < 2);
    if (!this.waiting) this.time += passed;
    if (this.time >= this.duration && !this.wrap()) return;
    for (const video of this.videos) this.correct(video);
    this.onTick();
    this.frame = requestAnimationFrame(() => this.tick());
  }
  wrap() {
    if (this.loop) { this.seek(0); return true; }
    this.time = this.duration; this.pause();
    return false;
  }
  correct(video) {
    if (!video.readyState || video.error) return;
    const off = this.inside(video) - video.currentTime, pace = this.byIndex ? this.inFrame(video).pace : 1;
    // A video that has ended would play from its start again.
    if (this.waiting || video.ended || this.videoTime(video) > video.duration) { video.pause(); return; }
    if (!pace) { this.hold(video, off); return; }
    if (Math.abs(off) > SEEK_OFF * Math.max(1, this.speed) && !video.seeking) video.currentTime = this.inside(video);
    const nudge = Math.abs(off) > NUDGE_OFF ? Math.max(-0.5, Math.min(0.5, off * 2)) : 0;
    video.playbackRate = Math.min(FASTEST, Math.max(SLOWEST, this.speed * pace * (1 + nudge)));
    if (video.paused) video.play().catch(() => {});
  }
  hold(video, off) {
    if (video.seeking || (video.paused && Math.abs(off) < 0.4 / this.rates.get(video))) return;
    video.pause(); video.currentTime = this.inside(video);
  }
}
