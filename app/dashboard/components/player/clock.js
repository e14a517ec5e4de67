// The clock of every camera and plot. Videos follow it: nudged by speed, set right by a seek when far off.
// It stands still while a video has no frame yet, so that cameras never drift apart.

const SEEK_OFF = 0.25;
const NUDGE_OFF = 0.02;
const INTO_FRAME = 0.001;
const SLOWEST = 0.0625;
const FASTEST = 16;
const MAX_TICK_SECONDS = 0.25;

/**
 * @typedef {object} InFrame
 * @property {number} share How much of the frame has passed, 0 to 1.
 * @property {number} speed Seconds of the video in a second of the clock.
 */
/** @typedef {{ start: number, stop: number }} Span Seconds. */

export class Clock {
  /**
   * @param {number} duration Seconds.
   * @param {number} rate Steps per second.
   * @param {() => void} onTick Called after every change.
   * @param {number[]} [stamps] Seconds of the steps, where these are not even.
   * @param {boolean} [byIndex] Whether frame i of every video belongs to step i.
   */
  constructor(duration, rate, onTick, stamps = [], byIndex = false) {
    this.duration = duration;
    this.rate = rate;
    this.onTick = onTick;
    this.stamps = stamps;
    this.byIndex = byIndex;
    /** @type {Map<HTMLVideoElement, number>} Frames per second of the videos that follow. */
    this.rates = new Map();
    this.time = 0;
    this.last = 0;
    this.frame = 0;
    this.speed = 1;
    this.playing = false;
    this.waiting = false;
    this.loop = false;
    /** @type {Span | null} The part that a loop repeats; the whole episode where null. */
    this.span = null;
  }

  get videos() {
    return [...this.rates.keys()];
  }

  /**
   * @param {HTMLVideoElement} video
   * @param {number} rate Frames per second.
   */
  follow(video, rate) {
    this.rates.set(video, rate);
    video.addEventListener("loadedmetadata", () => this.align(video));
  }

  /** @param {HTMLVideoElement} video */
  unfollow(video) {
    this.rates.delete(video);
    video.pause();
  }

  /** @param {HTMLVideoElement} video */
  rateOf(video) {
    return this.rates.get(video) ?? this.rate;
  }

  /** @param {HTMLVideoElement} video */
  align(video) {
    video.currentTime = this.inside(video);
  }

  /**
   * Second of the video, within its ends and its frame.
   *
   * @param {HTMLVideoElement} video
   */
  inside(video) {
    const end = Number.isFinite(video.duration) ? video.duration - 0.002 : this.duration;
    return Math.max(0, Math.min(this.videoTime(video) + INTO_FRAME, end));
  }

  /** @param {HTMLVideoElement} video */
  videoTime(video) {
    if (!this.byIndex) return this.time;
    return (this.step + this.inFrame(video).share) / this.rateOf(video);
  }

  /**
   * Where paired by index, a video shows frame i for as long as step i lasts. In a step that is longer than
   * two frames it stops in the middle of the frame.
   *
   * @param {HTMLVideoElement} video
   * @returns {InFrame}
   */
  inFrame(video) {
    const rate = this.rateOf(video);
    const start = this.stamps[this.step];
    const passed = Math.max(0, this.time - start) * rate;
    const length = Math.max(1e-6, (this.stamps[this.step + 1] ?? this.duration) - start) * rate;
    if (length <= 2) return { share: Math.min(0.99, passed / length), speed: 1 / length };
    const share = Math.max(Math.min(0.5, passed), 1 - (length - passed));
    return { share: Math.min(0.99, share), speed: share === 0.5 ? 0 : 1 };
  }

  get step() {
    if (!this.stamps.length) return Math.min(this.steps - 1, Math.floor(this.time * this.rate + 1e-6));
    return nearestBefore(this.stamps, this.time);
  }

  get steps() {
    return this.stamps.length || Math.max(1, Math.round(this.duration * this.rate));
  }

  /** @param {number} time Seconds. */
  seek(time) {
    this.time = Math.max(0, Math.min(time, this.duration));
    this.alignAll();
    this.onTick();
  }

  alignAll() {
    for (const video of this.videos) if (video.readyState) this.align(video);
  }

  /** @param {number} step */
  toStep(step) {
    const inside = Math.max(0, Math.min(step, this.steps - 1));
    this.pause();
    this.seek(this.stamps.length ? this.stamps[inside] : inside / this.rate);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /**
   * Repeats a part of the episode, or all of it where null.
   *
   * @param {Span | null} span
   */
  loopSpan(span) {
    this.span = span;
    this.loop = true;
    if (span && !this.isInLoop()) this.seek(span.start);
    else this.onTick();
  }

  toggleLoop() {
    this.loop = !this.loop;
    this.onTick();
  }

  isInLoop() {
    return !this.span || (this.time >= this.span.start && this.time < this.span.stop);
  }

  get end() {
    return this.loop && this.span ? this.span.stop : this.duration;
  }

  play() {
    if (this.loop && this.span && !this.isInLoop()) this.seek(this.span.start);
    else if (this.time >= this.duration - 1e-3) this.seek(0);
    this.playing = true;
    this.last = performance.now();
    this.frame = requestAnimationFrame(() => this.tick());
    this.onTick();
  }

  pause() {
    const wasPlaying = this.playing;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    for (const video of this.videos) video.pause();
    if (wasPlaying) this.alignAll(); // what plays is drawn some milliseconds ahead or behind
    this.onTick();
  }

  tick() {
    if (!this.playing) return;
    this.advance(performance.now());
    if (this.time >= this.end && !this.wrap()) return;
    for (const video of this.videos) this.correct(video);
    this.onTick();
    this.frame = requestAnimationFrame(() => this.tick());
  }

  /** @param {number} now Milliseconds. */
  advance(now) {
    const passed = Math.min(MAX_TICK_SECONDS, (now - this.last) / 1000) * this.speed;
    this.last = now;
    this.waiting = this.videos.some((video) => !video.error && video.readyState < 2);
    if (!this.waiting) this.time += passed;
  }

  /** At the end: from the start again in a loop, otherwise a stop. */
  wrap() {
    if (this.loop) {
      this.seek(this.span ? this.span.start : 0);
      return true;
    }
    this.time = this.duration;
    this.pause();
    return false;
  }

  /** @param {HTMLVideoElement} video */
  correct(video) {
    if (!video.readyState || video.error) return;
    const speed = this.byIndex ? this.inFrame(video).speed : 1;
    // A video that has ended would play from its start again.
    if (this.waiting || video.ended || this.videoTime(video) > video.duration) video.pause();
    else if (speed) this.drive(video, speed);
    else this.freeze(video);
  }

  /**
   * @param {HTMLVideoElement} video
   * @param {number} speed Seconds of the video in a second of the clock.
   */
  drive(video, speed) {
    const off = this.inside(video) - video.currentTime;
    if (Math.abs(off) > SEEK_OFF * Math.max(1, this.speed) && !video.seeking) this.align(video);
    const nudge = Math.abs(off) > NUDGE_OFF ? Math.max(-0.5, Math.min(0.5, off * 2)) : 0;
    video.playbackRate = Math.min(FASTEST, Math.max(SLOWEST, this.speed * speed * (1 + nudge)));
    if (video.paused) video.play().catch(() => {});
  }

  /** @param {HTMLVideoElement} video */
  freeze(video) {
    const off = Math.abs(this.inside(video) - video.currentTime);
    if (video.seeking || (video.paused && off < 0.4 / this.rateOf(video))) return;
    video.pause();
    this.align(video);
  }
}

/**
 * Index of the last time that is not after another; 0 where all are.
 *
 * @param {number[]} times Sorted, in seconds.
 * @param {number} time
 */
export function nearestBefore(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time + 1e-6) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
