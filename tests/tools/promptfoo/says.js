// A provider without a network: it says its words about the prompt, never twice the same, and fails where it is told to.
let calls = 0;
module.exports = class {
  constructor(options) {
    this.config = options.config;
  }
  id() {
    return "says";
  }
  async callApi(prompt) {
    if (this.config.fails && prompt.includes("bread")) return { error: "as told" };
    return { output: `${this.config.says}, "${prompt}"\nline two, é, call ${++calls}` };
  }
};
