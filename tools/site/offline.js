/* Search without a server. A page of a disk may neither start a worker nor
   fetch the index, so the worker's script runs in a frame of the page and the
   index is a script. Material for MkDocs asks for both: __search.index is a
   promise of the index, new Worker() takes messages.
   src: mkdocs-material 8.2.5, assets/javascripts/bundle.*.js */
'use strict';

class FrameWorker extends EventTarget {
    constructor(url) {
        super();
        this.waiting = [];
        const frame = document.createElement('iframe');
        frame.hidden = true;
        const start = () => {
            document.body.append(frame);
            const inner = frame.contentWindow;
            inner.postMessage = data => this.dispatchEvent(
                new MessageEvent('message', {data}));
            inner.importScripts = (...urls) => Promise.all(urls.map(
                part => this.load(new URL(part, url))));
            this.inner = inner;
            this.load(url).then(() => {
                this.waiting.splice(0).forEach(data => this.send(data));
                this.waiting = null;
            });
        };
        start();
    }

    load(url) {
        const script = this.inner.document.createElement('script');
        script.src = url;
        return new Promise((resolve, reject) => {
            script.onload = resolve;
            script.onerror = reject;
            this.inner.document.head.append(script);
        });
    }

    send(data) {
        this.inner.dispatchEvent(
            new this.inner.MessageEvent('message', {data}));
    }

    postMessage(data) {
        if (this.waiting)
            this.waiting.push(data);
        else
            this.send(data);
    }

    terminate() {}
}

if (location.protocol === 'file:') {
    const here = document.currentScript.src;
    window.Worker = FrameWorker;
    window.__search = {
        index: new Promise(resolve => {
            window.searchIndex = resolve;
            const script = document.createElement('script');
            script.src = new URL('search/search_index.js', here);
            document.head.append(script);
        }),
    };
}
