// Follows a page: the server sends its parts again when they change. It says so when the server is silent: what is shown is old then.
"use strict";
(() => {
  const live = document.documentElement.dataset.live;
  const connection = document.getElementById("connection");
  const parts = { banner: document.getElementById("banner"), body: document.getElementById("main") };
  const longestSilence = 8000, retry = 2000;
  let source = null, heard = Date.now();

  const kept = {
    // What the user has opened, closed, chosen or typed stays so.
    beforeNodeMorphed: (node) => node.tagName !== "FORM",
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
  };
  const show = (name, html) => {
    Idiomorph.morph(parts[name], html, { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: kept });
  };
  const hear = () => {
    heard = Date.now();
    if (!connection.hidden) {
      connection.hidden = true;
      connection.textContent = "";
    }
  };
  const connect = () => {
    if (source || document.hidden) {
      return;
    }
    source = new EventSource(live);
    for (const name of Object.keys(parts)) {
      source.addEventListener(name, (event) => { hear(); show(name, event.data); });
    }
    source.addEventListener("alive", hear);
    source.addEventListener("error", disconnect);
  };
  const disconnect = () => {
    if (source) {
      source.close();
      source = null;
    }
  };
  document.addEventListener("visibilitychange", () => { document.hidden ? disconnect() : connect(); });
  setInterval(() => {
    const silent = Date.now() - heard;
    if (document.hidden) {
      return;
    }
    if (silent > longestSilence) {
      connection.hidden = false;
      connection.textContent = `What you see is ${Math.round(silent / 1000)} seconds old: ${document.documentElement.dataset.silent}`;
      disconnect();
    }
    connect();
  }, retry);
  connect();
})();
