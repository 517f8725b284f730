// The worker's end of the line to the page: answers {id, op, args} with {id, value} or {id, error}.

/**
 * Runs `handlers[op](args, progress)` for each request. The wasm package throws a string where it refuses an input;
 * anything else (a trap, a failed read) is a fault, after which this worker cannot be trusted.
 */
export function serve(handlers, memoryBytes) {
  keepLastWords();
  self.onmessage = async ({ data: { id, op, args } }) => {
    const progress = (value) => self.postMessage({ id, progress: value });
    try {
      self.postMessage({ id, value: await handlers[op](args, progress) });
    } catch (thrown) {
      self.postMessage({ id, error: describe(thrown, memoryBytes()) });
    }
  };
  self.postMessage({ ready: true });
}

let lastWords = '';

/** Before it dies of a panic, the wasm module says on the console where and why; the trap itself says `unreachable`. */
function keepLastWords() {
  const say = console.error;
  console.error = (text) => {
    lastWords = String(text);
    say(text);
  };
}

function describe(thrown, memory) {
  if (typeof thrown === 'string') return { kind: 'refused', message: thrown };
  const kind = thrown instanceof DOMException ? 'unreadable' : 'fault';
  return { kind, message: (kind === 'fault' && lastWords) || (thrown?.message ?? String(thrown)), memory };
}
