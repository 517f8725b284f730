// Opens the report that the address contains like a dropped file. Loaded if the address contains one.

import { madeByPage } from './intake.js';

/** @import { Entry, Page } from './types.js' */

/** The name of its chip. */
const NAME = 'Report from the link';

export class LinkedReport {
  #page;
  #removeFromAddress;
  #text = '';
  /** @type {Entry | null} */
  #entry = null;

  /** @param {Page} page @param {() => void} removeFromAddress */
  constructor(page, removeFromAddress) {
    this.#page = page;
    this.#removeFromAddress = removeFromAddress;
    page.store.subscribe(['entries'], () => this.#check());
  }

  /** Opens an encoded report in place of the previous one; an empty text only closes that one. @param {string} text */
  async open(text) {
    if (text === this.#text) return;
    const { requestTool, openFiles, session } = this.#page;
    this.#text = text;
    const before = this.#entry;
    this.#entry = null;
    if (before) session.remove(before);
    if (!text) return;
    try {
      const report = await requestTool('openLink', { text });
      if (text !== this.#text) return;
      const file = new File([report], NAME);
      madeByPage.add(file);
      const opened = openFiles([file]);
      this.#entry = session.entries.at(-1) ?? null;
      await opened;
    } catch (problem) {
      this.#text = '';
      this.#removeFromAddress();
      throw problem;
    }
  }

  /** If the report's chip was closed, removes the report from the address. */
  #check() {
    if (!this.#entry || this.#page.session.entries.includes(this.#entry)) return;
    this.#entry = null;
    this.#text = '';
    this.#removeFromAddress();
  }
}
