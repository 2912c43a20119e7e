// Browsers refuse workers on pages that were opened as files. There a hidden frame does the worker's work, so that
// the search of the site works without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...scripts) => scripts.reduce(
        (before, script) => before.then(() => new Promise((done, failed) => this.load(script, done, failed))),
        Promise.resolve(),
      );
      this.load(url, () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      }, (problem) => this.dispatchEvent(new ErrorEvent("error", { error: problem })));
    }

    load(url, done, failed) {
      const script = this.frame.contentDocument.createElement("script");
      Object.assign(script, { src: url, onload: done, onerror: failed });
      this.frame.contentDocument.body.appendChild(script);
    }

    postMessage(data) {
      if (this.ready) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
