// A video or sound file beside the recording, in step with the cursor.
export class Media {
  /** @param played (step) => void, while it plays */
  constructor(figure, played) {
    this.figure = figure;
    this.played = played;
    this.player = null;
  }

  set(media, rate) {
    this.figure.hidden = !media;
    if (!media) return;
    this.rate = rate;
    this.offset = media.offset;
    const player = (this.player = document.createElement(media.video ? "video" : "audio"));
    player.src = "/media";
    player.controls = true;
    player.preload = "metadata";
    player.setAttribute("aria-label", media.name);
    player.addEventListener("error", () => {
      this.figure.textContent = `${media.name} cannot be played by this browser.`;
      this.player = null;
    });
    const follow = () => {
      if (!this.player || player.paused) return;
      this.tell();
      requestAnimationFrame(follow);
    };
    player.addEventListener("play", follow);
    player.addEventListener("seeked", () => {
      if (!this.seeking) this.tell(); // by the player's own bar
      this.seeking = false;
    });
    this.figure.replaceChildren(player);
    if (!rate) {
      this.figure.append("Give --rate to have it in step with the cursor.");
    }
  }

  tell() {
    if (this.rate) this.played((this.player.currentTime + this.offset) * this.rate);
  }

  seek(step) {
    if (!this.player || !this.rate || !this.player.paused) return;
    const time = Math.max(0, step / this.rate - this.offset);
    if (Math.abs(time - this.player.currentTime) < 0.5 / this.rate) return;
    this.seeking = true;
    this.player.currentTime = time;
  }

  toggle() {
    if (!this.player) return;
    if (this.player.paused) this.player.play();
    else this.player.pause();
  }
}
