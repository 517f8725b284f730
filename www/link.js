// A report that the address carries: opened as if it were dropped, for as long as the address names it. Fetched when an
// address carries one.

/** What its chip is called. */
const NAME = 'Report from the link';

export class Carried {
  #desk;
  #session;
  #openFiles;
  #forget;
  #text = '';
  #entry = null;

  /** `desk()` resolves with the desk; `forget()` takes the report out of the address. */
  constructor({ desk, session, openFiles, forget }) {
    this.#desk = desk;
    this.#session = session;
    this.#openFiles = openFiles;
    this.#forget = forget;
  }

  /** Opens the report of this text in place of the one before; '' closes that one. */
  async take(text) {
    if (text === this.#text) return;
    this.#text = text;
    const before = this.#entry;
    this.#entry = null;
    if (before) this.#session.remove(before);
    if (!text) return;
    try {
      const report = await (await this.#desk()).openLink(text);
      if (text !== this.#text) return;
      const opened = this.#openFiles([new File([report], NAME)]);
      this.#entry = this.#session.entries.at(-1);
      await opened;
    } catch (problem) {
      this.#text = '';
      this.#forget();
      throw problem;
    }
  }

  /** Once its chip is closed the address carries it no more. */
  check() {
    if (!this.#entry || this.#session.entries.includes(this.#entry)) return;
    this.#entry = null;
    this.#text = '';
    this.#forget();
  }
}
