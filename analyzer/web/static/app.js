// What a page can do beyond its forms: copying, several dropped files, an upload that shows how far it is and can be stopped.
"use strict";
(() => {
  const words = document.body.dataset;

  // --- copying -------------------------------------------------------------------------------------------------------------------
  async function toClipboard(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    // Without TLS there is no clipboard interface; a hidden field's selection still can be copied.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("copying is not allowed");
  }

  async function copy(button) {
    const label = [...button.childNodes];
    try {
      let text = button.dataset.copy;
      if (button.dataset.fetchCopy) {
        const answer = await fetch(button.dataset.fetchCopy);
        if (!answer.ok) throw new Error(String(answer.status));
        text = await answer.text();
      }
      await toClipboard(text);
      button.textContent = words.copied;
    } catch {
      button.textContent = words.copyFailed;
    }
    setTimeout(() => { button.replaceChildren(...label); }, 1600);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy], button[data-fetch-copy]");
    if (button) copy(button);
  });

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // --- sending -------------------------------------------------------------------------------------------------------------------
  class Sender {
    constructor(form) {
      this.form = form;
      this.input = form.querySelector('input[type="file"]');
      this.list = form.querySelector(".files");
      this.sending = form.querySelector(".sending");
      this.problem = form.querySelector('[role="alert"]');
      this.files = [];
      form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
      form.querySelector("[data-cancel]").addEventListener("click", () => this.request && this.request.abort());
      this.input.addEventListener("change", () => { this.add(this.input.files); this.input.value = ""; });
      let depth = 0;
      form.addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; form.classList.add("over"); });
      form.addEventListener("dragleave", () => { depth -= 1; if (depth <= 0) form.classList.remove("over"); });
      form.addEventListener("dragover", (event) => event.preventDefault());
      form.addEventListener("drop", (event) => {
        depth = 0;
        form.classList.remove("over");
        if (!event.dataTransfer.files.length) return;
        event.preventDefault();
        this.add(event.dataTransfer.files);
      });
      form.querySelector("textarea").addEventListener("paste", (event) => {
        const files = event.clipboardData && event.clipboardData.files;
        if (files && files.length) { event.preventDefault(); this.add(files); }
      });
    }

    add(files) {
      this.files.push(...files);
      this.show();
    }

    show() {
      this.list.replaceChildren(...this.files.map((file, place) => {
        const item = document.createElement("li");
        const name = document.createElement("span");
        name.textContent = `${file.name} · ${size(file.size)}`;
        const remove = document.createElement("button");
        remove.type = "button";
        remove.className = "quiet";
        remove.textContent = this.form.dataset.remove;
        remove.setAttribute("aria-label", `${this.form.dataset.remove}: ${file.name}`);
        remove.addEventListener("click", () => { this.files.splice(place, 1); this.show(); });
        item.append(name, remove);
        return item;
      }));
      this.list.hidden = this.files.length === 0;
    }

    fail(text) {
      this.problem.textContent = text;
      this.problem.hidden = false;
      this.sending.hidden = true;
      this.form.querySelector('[type="submit"]').disabled = false;
    }

    send() {
      const text = this.form.querySelector("textarea").value;
      this.problem.hidden = true;
      if (!text.trim() && !this.files.length) { this.fail(this.form.dataset.empty); return; }
      const body = new FormData();
      if (text.trim()) body.append("text", text);
      for (const file of this.files) body.append("file", file, file.name);
      const request = new XMLHttpRequest();
      this.request = request;
      const bar = this.sending.querySelector("progress");
      const count = this.sending.querySelector("output");
      const show = (share) => {
        bar.value = share * 100;
        count.textContent = share < 1 ? `${Math.floor(share * 100)} %` : this.form.dataset.analysing;
      };
      show(0);
      this.sending.hidden = false;
      this.form.querySelector('[type="submit"]').disabled = true;
      request.upload.addEventListener("progress", (event) => event.lengthComputable && show(event.loaded / event.total));
      request.addEventListener("load", () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch { /* no JSON: the status says it */ }
        if (request.status < 300 && answer.id) {
          const query = new URLSearchParams(window.location.search).get("lang");
          const target = `/a/${answer.id}${query ? `?lang=${encodeURIComponent(query)}` : ""}`;
          window.location.assign(target);
          // On the report's own page only the part behind # may differ, which loads nothing.
          if (window.location.pathname === `/a/${answer.id}`) window.location.reload();
        } else this.fail(answer.detail ? `${answer.title}: ${answer.detail}` : `${request.status}`);
      });
      request.addEventListener("error", () => this.fail(this.form.dataset.tooSlow));
      request.addEventListener("abort", () => this.fail(this.form.dataset.cancelled));
      request.open("POST", this.form.dataset.send);
      request.setRequestHeader("Accept", "application/json");
      request.send(body);
    }
  }

  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let place = 0;
    while (bytes >= 1024 && place < units.length - 1) { bytes /= 1024; place += 1; }
    return `${place ? bytes.toFixed(1) : bytes} ${units[place]}`;
  }

  // --- sliders -------------------------------------------------------------------------------------------------------------------
  function sliders(form) {
    const show = () => {
      for (const input of form.querySelectorAll('input[type="range"]')) {
        const output = form.querySelector(`output[for="${input.id}"]`);
        if (output) output.textContent = input.step.includes(".") ? Number(input.value).toFixed(2) : Number(input.value).toLocaleString("en");
      }
    };
    form.addEventListener("input", show);
    const reset = form.querySelector('[type="reset"]');
    reset.addEventListener("click", (event) => {
      event.preventDefault();
      form.reset();
      show();
      form.dispatchEvent(new Event("input"));
    });
    show();
  }

  for (const form of document.querySelectorAll("form[data-send]")) new Sender(form);
  for (const form of document.querySelectorAll("form[data-what-if]")) sliders(form);
  for (const hidden of document.querySelectorAll("button[data-copy], button[data-fetch-copy], [data-script]")) hidden.hidden = false;
  for (const shown of document.querySelectorAll("[data-no-script]")) shown.hidden = true;
})();
