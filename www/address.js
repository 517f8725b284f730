// The address of what is on screen: the URL fragment holds tab, sort, filter, run, hidden categories, pivot, kernel, the
// dashboard and how to count,
// so that Back, reload and a pasted link (with the same files opened again) show the same thing. A link may carry a report
// besides (`report=`): it stays there behind the view for as long as it is open. Browsers send no fragment to a server.

const DEFAULTS = {
  tab: '', of: '', sort: '', dir: 'desc', filter: '', run: '', base: '', hide: [], rules: '', attribution: 'first_come', devices: 'each', window: [], pivot: [], kernel: '',
  gpu: '', above: '', comm: '',
};

/** The report that the address carries, as the desk wrote it; '' where it carries none. */
let carried = '';

export const reportInAddress = () => carried;

/** Leaves the report out of the address from now on. */
export function forgetReport(view) {
  carried = '';
  writeAddress(view, { step: false });
}

/** The view that the address names; anything it does not name has its default. */
export function readAddress() {
  const params = new URLSearchParams(location.hash.slice(1));
  carried = params.get('report') ?? '';
  const view = {};
  for (const [name, fallback] of Object.entries(DEFAULTS)) {
    view[name] = Array.isArray(fallback) ? params.getAll(name) : params.get(name) ?? fallback;
  }
  return view;
}

/** Writes the view into the address: a new step in the history, or a correction of the present one. */
export function writeAddress(view, { step }) {
  const params = new URLSearchParams();
  for (const [name, fallback] of Object.entries(DEFAULTS)) {
    if (Array.isArray(fallback)) view[name].forEach((item) => params.append(name, item));
    else if (view[name] !== fallback || (name === 'dir' && view.sort)) params.set(name, view[name]);
  }
  if (carried) params.set('report', carried);
  const text = params.toString();
  const address = text ? `#${text}` : location.pathname + location.search;
  if (text === location.hash.slice(1)) return;
  if (step) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
}
