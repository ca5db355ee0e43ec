/* Two faults of the search in mkdocs-material 8.2.5, mended from outside.
 *
 * A page that is read from a disk may neither start a worker nor fetch the
 * index. There the worker's script runs in a frame of the page, and the index
 * is a script: __search.index is a promise of it.
 *
 * The worker takes one message at a time, and while it works only the last one
 * that comes is kept. A word that is typed before the index has come can push
 * out the index itself; then there is no search until the page is loaded
 * again. So words are answered here until the worker is ready: nothing found.
 * Material asks again when it is.
 *
 * src: mkdocs-material 8.2.5, assets/javascripts: new Worker, __search,
 * messages {type, data} */
'use strict';

const SEARCH = {READY: 1, QUERY: 2, RESULT: 3};

/* A worker's script in a frame, for pages that may not have workers. */
class FrameWorker extends EventTarget {
    constructor(url) {
        super();
        this.waiting = [];
        const frame = document.createElement('iframe');
        frame.hidden = true;
        document.body.append(frame);
        this.inner = frame.contentWindow;
        this.inner.postMessage = data => this.dispatchEvent(
            new MessageEvent('message', {data}));
        this.inner.importScripts = (...urls) => Promise.all(urls.map(
            part => this.load(new URL(part, url))));
        this.load(url).then(() => {
            this.waiting.splice(0).forEach(data => this.send(data));
            this.waiting = null;
        });
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
}

const isOnDisk = location.protocol === 'file:';
const InnerWorker = isOnDisk ? FrameWorker : window.Worker;

window.Worker = class SearchWorker extends EventTarget {
    constructor(url) {
        super();
        this.isReady = false;
        this.inner = new InnerWorker(url);
        this.inner.addEventListener('message', ({data}) => {
            this.isReady ||= data.type === SEARCH.READY;
            this.tell(data);
        });
    }

    tell(data) {
        this.dispatchEvent(new MessageEvent('message', {data}));
    }

    postMessage(message) {
        if (this.isReady || message.type !== SEARCH.QUERY)
            this.inner.postMessage(message);
        else
            queueMicrotask(() => this.tell(
                {type: SEARCH.RESULT, data: {items: []}}));
    }
};

if (isOnDisk) {
    const here = document.currentScript.src;
    window.__search = {
        index: new Promise(resolve => {
            window.searchIndex = resolve;
            const script = document.createElement('script');
            script.src = new URL('search/search_index.js', here);
            document.head.append(script);
        }),
    };
}
