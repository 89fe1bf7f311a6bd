//! How the page takes samples that lack something.

use crate::LIVE;
use crate::browser::Browser;
use crate::common::kernel_test;
use crate::exported::exporter;
use hotcc_testbed::browser::chromium;
use hotcc_testbed::kernel::skipped;
use serde_json::Value;

/// Makes samples with one connection and one link, which the page takes.
const MADE_UP: &str = "(() => {
    [model.sample, model.flows, model.links, view.flow] = [null, new Map(), new Map(), 'here a:1 b:2'];
    const connection = (acked_bytes) => ({
        netns: 'here', local: 'a:1', peer: 'b:2', cc: 'c', version: 'kernel', ca_state: 'open', acked_bytes,
        retransmits: 0, cwnd: 1, ssthresh: null, srtt_us: null, min_rtt_us: null, sinr_db: null, slot: 7, pep: null,
    });
    const link = (updates) => ({ slot: 7, peers: 'p', state: 'fresh', sinr_db: null, updates });
    const listed = (total, first) => ({ total, first });
    window.sample = (s, acked, updates, total = 1) => take({
        time_ms: 1000 * s,
        period_ms: 1000,
        connections: acked === undefined ? null : listed(total, acked === null ? [] : [connection(acked)]),
        links: updates === undefined ? null : listed(1, [link(updates)]),
        errors: {},
    }, view.flow);
    window.rates = () => {
        const [flow, link] = [model.flows.get(view.flow), model.links.get(7)];
        return [flow.goodput_bps, link.goodput_bps, link.readings_per_s];
    };
    window.state = () => {
        drawDetails();
        return document.querySelector('#details-state').textContent.split(' · ')[0];
    };
})()";

/// What a sample lacks is not made up: a rate is over the time since the part was read before, and a connection is not
/// closed because a thousand others are faster.
#[test]
fn parts_and_connections_that_a_sample_lacks() {
    let name = "parts_and_connections_that_a_sample_lacks";
    let Some(program) = chromium() else {
        skipped(name, "no chromium");
        return;
    };
    let Some(_test) = kernel_test(name, &[]) else { return };
    let (_process, address) = exporter(&[]);
    let mut browser = Browser::open(program, &format!("http://{address}/"));
    let b = &mut browser;
    b.wait(&format!("document.readyState === 'complete' && {LIVE}"));
    b.press("p");
    b.wait("!asking");
    b.eval(MADE_UP);
    let rates = |b: &mut Browser, sample: &str| b.eval(&format!("sample({sample}); rates()")).to_string();
    let state = |b: &mut Browser, sample: &str| b.eval(&format!("sample({sample}); state()"));

    assert_eq!(rates(b, "1, 0, 0"), "[null,null,null]");
    assert_eq!(rates(b, "2, 1000, 10"), "[8000,8000,10]");
    b.eval("sample(3)"); // neither could be read
    assert_eq!(rates(b, "4, 3000, 30"), "[8000,8000,10]");
    assert_eq!(rates(b, "5, undefined, 40"), "[8000,null,10]", "a link's goodput is that of connections of the sample");

    assert_eq!(state(b, "6, 4000, 50"), "open");
    assert_eq!(state(b, "7, null, 60, 1001"), "not among the fastest");
    assert_eq!(state(b, "9, 7000, 80, 1001"), "open", "it is again");
    assert_eq!(rates(b, "10, 8000, 90"), "[8000,8000,10]");
    assert_eq!(b.eval("model.flows.get(view.flow).points.length"), 6);
    assert_eq!(state(b, "11, null, 100, 0"), "closed");
    assert_eq!(state(b, "12, null, 110, 1001"), "closed", "it stays closed");
    assert_eq!(rates(b, "13, 9000, 120"), "[null,null,10]", "another one");

    // a part that could not be read is not shown as it was before
    b.eval(
        "sample(14, 9000, 130); drawAll(); sample(15); model.sample.errors = { algorithms: 'x', pep: 'x' }; drawAll()",
    );
    assert_eq!(b.eval("document.querySelectorAll('#flows tr, #link-rows tr').length"), 0);
    assert_eq!(b.eval("['count', 'tile-goodput'].map(id => at(id).textContent).join()"), "–,–");
    let notes = b.eval("['no-algorithms', 'no-pep'].map(id => at(id).textContent).join()");
    assert_eq!(notes, "Could not be read: x,Could not be read: x");

    // nor is a goodput that is the sum of a part, or a reading that is too old
    b.eval("sample(16, 9000, 140, 1001); drawAll()");
    assert_eq!(b.eval("at('algorithms-goodput').textContent"), "Goodput of those shown, Mbit/s");
    let shown = "(() => { const chart = figure(at('signal-charts'), 't', 'u'); drawScatter(chart, [{ time: 1, sinr: 9, \
                 goodput: 12 }, { time: 2, sinr: null, goodput: 12 }]); return chart.value.textContent; })()";
    assert_eq!(b.eval(shown), "–");
    assert_eq!(b.complaints(), Vec::<Value>::new());
}
