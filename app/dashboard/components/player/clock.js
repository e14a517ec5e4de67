// One clock for every camera and plot. Videos follow it: nudged by speed, set right by a seek when far off;
// it stands still while one of them has no frame yet, so that cameras never drift apart.
const SEEK_OFF = 0.25, NUDGE_OFF = 0.02, INTO_FRAME = 0.001;

class Clock {
  // stamps: seconds of the steps, where these are not even; byIndex: frame i of every video belongs to step i.
  constructor(duration, rate, onTick, stamps = [], byIndex = false) {
    this.duration = duration; this.rate = rate; this.onTick = onTick; this.stamps = stamps; this.byIndex = byIndex;
    this.videos = []; this.time = 0; this.playing = false; this.speed = 1; this.loop = false; this.waiting = false;
  }
  follow(video) {
    this.videos.push(video);
    video.addEventListener("loadedmetadata", () => { video.currentTime = this.inside(video); });
  }
  unfollow(video) { this.videos = this.videos.filter((other) => other !== video); video.pause(); }
  inside(video) {
    const end = Number.isFinite(video.duration) ? video.duration - 0.002 : this.duration;
    return Math.max(0, Math.min(this.videoTime + INTO_FRAME, end));
  }
  // Where paired by index, a video shows frame i from i / rate on, for as long as step i lasts.
  get videoTime() {
    if (!this.stamps.length || !this.byIndex) return this.time;
    const step = this.step, start = this.stamps[step], next = this.stamps[step + 1] ?? this.duration;
    return (step + Math.min(0.99, Math.max(0, this.time - start) / Math.max(1e-6, next - start))) / this.rate;
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
    for (const video of this.videos) if (video.readyState) video.currentTime = this.inside(video);
    this.onTick();
  }
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
    this.playing = false; cancelAnimationFrame(this.frame);
    for (const video of this.videos) video.pause();
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
    const off = this.inside(video) - video.currentTime;
    if (this.waiting || this.videoTime > video.duration) { video.pause(); return; }
    if (Math.abs(off) > SEEK_OFF * Math.max(1, this.speed) && !video.seeking) video.currentTime = this.inside(video);
    const nudge = Math.abs(off) > NUDGE_OFF ? Math.max(-0.5, Math.min(0.5, off * 2)) : 0;
    video.playbackRate = Math.max(0.0625, this.speed * (1 + nudge));
    if (video.paused) video.play().catch(() => {});
  }
}
