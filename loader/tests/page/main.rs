//! Tests the exporter's page and its data: over HTTP, and in a real browser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/exported.rs"]
mod exported;
#[path = "../common/fed.rs"]
mod fed;
mod made_up;
mod scene;
use browser::Browser;
use common::*;
use exported::{Process, exporter, listening_on};
use fed::Fed;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::{clock, pins};
use hotcc_radio_map::{RadioSlots, Reading};
use hotcc_testbed::browser::chromium;
use hotcc_testbed::http::get;
use hotcc_testbed::kernel::skipped;
use libbpf_rs::MapHandle;
use nix::sys::signal::Signal;
use scene::{IDLE_PAIRS, Scene};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn live(address: SocketAddr) -> Value {
    let (head, body) = get(address, "/live.json").unwrap();
    assert!(head.starts_with("200 "), "{head}{body}");
    serde_json::from_str(&body).unwrap()
}

/// Sends a request, and returns the whole answer.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_comes_alone_and_only_from_here() {
    let Some(_test) = kernel_test("the_page_comes_alone_and_only_from_here", &[]) else { return };
    let (_process, address) = exporter(&[]);
    let (head, page) = get(address, "/").unwrap();
    let head = head.to_lowercase();
    for field in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.lines().any(|line| line.starts_with(field)), "no {field:?} in\n{head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
    assert!(!page.contains("http://") && !page.contains("https://") || page.matches("http").count() == 1, "{page}");
    assert!(!page.contains("innerHTML") && !page.contains("insertAdjacent"), "texts are set as text");
    let (head, _) = get(address, "/live.json").unwrap();
    assert!(head.contains("application/json") && head.contains("no-store") && head.contains("nosniff"), "{head}");
    // another site's name that resolves to this address
    let rebound = ask(address, "GET /live.json HTTP/1.1\r\nHost: site.example:9717\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403 ") && rebound.contains("localhost"), "{rebound}");
    for path in ["/", "/live.json"] {
        let post = ask(address, &format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n"));
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        let head = ask(address, &format!("HEAD {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    }
}

#[test]
fn the_page_is_for_this_host_unless_asked_for() {
    let Some(_test) = kernel_test("the_page_is_for_this_host_unless_asked_for", &[]) else { return };
    for (listen, options, is_served) in [
        ("127.0.0.1:0", &[][..], true),
        ("[::1]:0", &[], true),
        ("0.0.0.0:0", &[], false),
        ("0.0.0.0:0", &["--page", "always"], true),
        ("127.0.0.1:0", &["--page", "never"], false),
    ] {
        let (_process, mut address) = listening_on(listen, &mut Command::new(hotcc_path()), options);
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 1].into());
        }
        let get = |path| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        let index = get("/");
        assert_eq!(index.contains("text/html"), is_served, "{listen} {options:?}: {index}");
        assert!(is_served || index.contains("/metrics  for Prometheus"), "{index}");
        let status = if is_served { "HTTP/1.1 200 " } else { "HTTP/1.1 404 " };
        assert!(get("/live.json").starts_with(status), "{listen} {options:?}: {}", get("/live.json"));
    }
}

/// However many clients ask, the kernel is read at most once in a period.
#[test]
fn samples_are_shared() {
    let Some(_test) = kernel_test("samples_are_shared", &[]) else { return };
    let (_process, address) = exporter(&[]);
    let began = Instant::now();
    let mut times = Vec::new();
    let mut period_ms = u64::MAX;
    while times.len() < 3 {
        let sample = live(address);
        period_ms = period_ms.min(sample["period_ms"].as_u64().unwrap());
        times.push(sample["time_ms"].as_u64().unwrap());
        times.dedup();
    }
    assert!(period_ms >= 1000, "{period_ms}");
    assert!(began.elapsed() >= Duration::from_millis(period_ms), "{times:?} in {:?}", began.elapsed());
}

#[test]
fn a_sample_has_the_connections_their_links_and_their_rules() {
    let Some(_scene) = Scene::new("a_sample_has_the_connections_their_links_and_their_rules", "a") else { return };
    let (_process, address) = exporter(&[]);
    // a connection without a rate yet may not be among the first
    let began = Instant::now();
    let sample = loop {
        let sample = live(address);
        assert_eq!((&sample["schema"], &sample["errors"]), (&1.into(), &serde_json::json!({})), "{sample}");
        let peers = sample["connections"]["first"].as_array().unwrap().iter().map(|flow| &flow["peer"]);
        if peers.filter(|peer| peer.as_str().unwrap().starts_with("10.249.7.2:")).count() == 3 {
            break sample;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{sample}");
    };
    let flows = sample["connections"]["first"].as_array().unwrap();
    let rates: Vec<u64> = flows.iter().map(|f| f["delivery_bps"].as_u64().unwrap_or(0)).collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "the fastest first: {rates:?}");
    let flow = flows.iter().find(|f| f["peer"] == "10.249.7.2:5201").unwrap();
    let link = sample["links"]["first"].as_array().unwrap().iter().find(|l| l["peers"] == "10.249.7.0/24").unwrap();
    assert_eq!((&flow["cc"], &flow["slot"], &link["state"]), (&"cc_page".into(), &link["slot"], &"fresh".into()));
    assert!(flow["sinr_db"].is_f64() && flow["acked_bytes"].is_u64(), "{flow}");
    let algorithm = sample["algorithms"].as_array().unwrap().iter().find(|a| a["name"] == "cc_page").unwrap();
    assert_eq!((&algorithm["object"], &algorithm["connections"]), (&"builtin:dtcp".into(), &2.into()), "{algorithm}");
    let rules = sample["rules"].as_array().unwrap();
    let chosen: Vec<&Value> = rules.iter().map(|rule| &rule["congestion_control"]).collect();
    assert_eq!(chosen, ["reno", "cc_page"]);
    assert_eq!((&rules[0]["connections"], &rules[0]["ended"]["connections"]), (&1.into(), &0.into()), "{}", rules[0]);
}

/// A stale SINR is not shown beside a fresh capacity, nor the other way round; a derived capacity is not fresh alone.
#[test]
fn a_value_of_a_link_is_null_once_it_is_stale() {
    const OLD_MS: u32 = 20_000;
    let Some(_test) = kernel_test("a_value_of_a_link_is_null_once_it_is_stale", &[]) else { return };
    let link = Fed::new("10.249.9.0/24", 10_000);
    let (_process, address) = exporter(&[]);
    let sinr = |age_ms| link.publish(7.0, 5.0, age_ms);
    let capacity = |is_capacity_derived, age_ms| {
        let reading = Reading { capacity_bps: Some(20e6), is_capacity_derived, ..Reading::default() };
        link.publish_reading(&reading, age_ms);
    };
    let shown = || {
        let now_ms = clock::monotonic_ns() / 1_000_000;
        loop {
            let sample = live(address);
            if sample["time_ms"].as_u64().unwrap() > now_ms {
                let links = sample["links"]["first"].as_array().unwrap();
                break links.iter().find(|link| link["peers"] == "10.249.9.0/24").unwrap().clone();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let values = |link: &Value| ["sinr_db", "average_db", "capacity_bps"].map(|key| link[key].as_f64());
    let is_old = |link: &Value| link["age_ms"].as_u64().unwrap() >= OLD_MS.into();

    sinr(OLD_MS);
    capacity(false, 0);
    let link = shown();
    assert_eq!((&link["state"], values(&link), is_old(&link)), (&"fresh".into(), [None, None, Some(20e6)], false));
    capacity(true, 0);
    let link = shown();
    assert_eq!((&link["state"], values(&link), is_old(&link)), (&"stale".into(), [None, None, Some(20e6)], true));
    sinr(0);
    capacity(false, OLD_MS);
    let link = shown();
    assert_eq!((&link["state"], values(&link), is_old(&link)), (&"fresh".into(), [Some(7.0), Some(5.0), None], false));
}

/// Returns the texts of a column of the connections' table.
fn column(browser: &mut Browser, place: usize) -> Vec<String> {
    let script = format!("[...document.querySelectorAll('#flows tr')].map(r => r.cells[{place}].textContent)");
    serde_json::from_value(browser.eval(&script)).unwrap()
}

fn numbers(browser: &mut Browser, place: usize) -> Vec<f64> {
    column(browser, place).iter().filter_map(|text| text.replace(',', "").parse().ok()).collect()
}

/// The name of a network namespace that would be markup if it were not shown as text.
const MARKUP: &str = "<b>a";
const LIVE: &str = "document.querySelector('#status').dataset.state === 'live'";

/// Starts the exporter and opens its page; `None` if the test cannot run.
fn opened(name: &str, from: &str) -> Option<(Scene, Process, SocketAddr, Browser)> {
    let Some(program) = chromium() else {
        skipped(name, "no chromium");
        return None;
    };
    let scene = Scene::new(name, from)?;
    let (process, address) = exporter(&[]);
    let mut browser = Browser::open(program, &format!("http://{address}/"));
    browser.wait(&format!("document.readyState === 'complete' && {LIVE}"));
    Some((scene, process, address, browser))
}

#[test]
fn the_page_works_in_a_real_browser() {
    let Some((mut scene, process, address, mut browser)) = opened("the_page_works_in_a_real_browser", MARKUP) else {
        return;
    };
    let b = &mut browser;
    // the filter, by keyboard; the goodput is known from the second sample on
    b.press("/");
    b.type_in("CC_PAGE");
    b.wait("document.querySelectorAll('#flows tr').length === 2 && model.goodput_bps > 0");
    assert_eq!(column(b, 2), ["cc_page", "cc_page"]);
    assert!(b.eval("document.querySelector('#count').textContent").as_str().unwrap().starts_with("2 of "));
    b.press("Escape");
    b.wait("document.querySelector('#filter').value === '' && document.querySelectorAll('#flows tr').length > 4");

    many(b, &mut scene);
    keys(b);
    colours(b);
    charts(b);
    assert_eq!(b.complaints(), Vec::<Value>::new());

    // the page goes on by itself after the exporter has started again, with what it knew
    b.eval("window.same = model.flows.get(view.flow).points.length");
    process.stop(Signal::SIGTERM);
    b.wait("document.querySelector('#status').dataset.state === 'lost' && !document.querySelector('#alert').hidden");
    let since = "/^Not connected since \\d{4}-\\d\\d-\\d\\d /.test(document.querySelector('#alert').textContent)";
    assert_eq!(b.eval(since), true, "with the date, for a page that is open for days");
    let (_process, _) = listening_on(&address.to_string(), &mut Command::new(hotcc_path()), &[]);
    b.wait(&format!(
        "{LIVE} && document.querySelector('#alert').hidden && model.flows.get(view.flow).points.length > same"
    ));
    let others: Vec<Value> =
        b.complaints().into_iter().filter(|c| c["params"]["entry"]["source"] != "network").collect();
    assert_eq!(others, Vec::<Value>::new());
}

/// Cohorts, feeders and PEP as they come and go: the page shows it, and so does its data.
#[test]
fn the_page_shows_the_health_of_canary_feeder_and_pep() {
    let name = "the_page_shows_the_health_of_canary_feeder_and_pep";
    let Some((scene, _process, address, mut browser)) = opened(name, "a") else { return };
    let b = &mut browser;
    let text = |id: &str| format!("document.querySelector('#{id}').textContent");
    b.wait(&format!("{}.includes('No open connection')", text("no-pep")));
    assert_eq!(b.eval(&format!("{}.includes('running')", text("canary-facts"))), false);

    let _canary = scene.canary();
    b.wait(&format!("{0}.includes('running') && {0}.includes('reno → cc_page')", text("canary-facts")));
    b.wait("document.querySelectorAll('#rule-rows tr').length === 4");
    assert_eq!(
        b.eval("[...document.querySelectorAll('#rule-rows tr')].map(r => r.cells[3].textContent).join()"),
        "canary,control,–,–"
    );
    assert_eq!(live(address)["canary"]["state"], "running");

    ok(&["load", "mdcubic", "--as", "cc_pep"]); // creates the map
    let report = PepFlow { updates: 2, rtt_us: 7_000, time_ns: clock::monotonic_ns(), ..PepFlow::default() };
    write_storage(pins::PEP_FLOW, &scene.sending, &report);
    b.wait(&format!("{0}.includes('on 1 connection') && {0}.includes('7.0 to 7.0 ms')", text("pep-facts")));
    let pep = live(address)["pep"].clone();
    assert_eq!((&pep["connections"], &pep["least_rtt_us"]), (&1.into(), &7_000.into()), "{pep}");

    let feeders = "document.querySelector('#link-rows').innerText";
    b.wait(&format!("{feeders}.includes('trace, process {}')", std::process::id()));
    let _link = Fed::new("10.249.8.0/24", 500);
    b.wait(&format!("{feeders}.includes('10.249.8.0/24')"));
    let links = live(address)["links"]["first"].clone();
    let slot =
        links.as_array().unwrap().iter().find(|l| l["peers"] == "10.249.8.0/24").unwrap()["slot"].as_u64().unwrap();
    let map = MapHandle::from_pinned_path(pins::signal(pins::RADIO_SLOTS)).unwrap();
    let slots = RadioSlots::writable(map).unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    slots.slot(slot.try_into().unwrap()).unwrap().owner_pid.store(ended.id(), Relaxed); // as if that had been killed
    b.wait(&format!("{feeders}.includes('trace, gone')"));
    assert_eq!(b.complaints(), Vec::<Value>::new());
}

/// A thousand connections: sorted, shown in steps, and without harm to the next sample.
fn many(b: &mut Browser, scene: &mut Scene) {
    scene.add_idle();
    b.wait(&format!("model.sample.connections.total >= {}", 2 * IDLE_PAIRS));
    assert!(column(b, 0).len() == 100, "the first hundred");
    b.click("#more");
    assert_eq!(column(b, 0).len(), 200);
    for (key, place) in [("rtt", 5), ("window", 6), ("goodput", 4)] {
        b.click(&format!("button[data-key={key}]"));
        assert_eq!(b.eval("document.querySelector('th[aria-sort=descending] button').dataset.key"), key);
        assert!(numbers(b, place).is_sorted_by(|a, b| a >= b), "{key}: {:?}", numbers(b, place));
    }
    b.click("button[data-key=peer]");
    assert_eq!(b.eval("document.querySelectorAll('th[aria-sort]').length"), 1);
    assert_eq!(b.eval("document.querySelector('th[aria-sort=ascending] button').dataset.key"), "peer");
    b.press("Enter"); // on the button that has the focus
    assert_eq!(b.eval("document.querySelector('th[aria-sort=descending] button').dataset.key"), "peer");
    b.click("button[data-key=goodput]");
    b.eval("window.before = model.sample.time_ms");
    b.wait("model.sample.time_ms > before");
}

fn keys(b: &mut Browser) {
    b.eval("document.activeElement.blur()");
    b.press("p");
    assert_eq!(b.eval("document.querySelector('#status').dataset.state"), "paused");
    assert_eq!(b.eval("document.querySelector('#pause').getAttribute('aria-pressed')"), "true");
    b.wait("!asking");
    b.eval("window.asked = performance.getEntriesByType('resource').length");
    b.eval("new Promise(done => setTimeout(done, 2 * model.sample.period_ms))");
    assert_eq!(b.eval("performance.getEntriesByType('resource').length === asked"), true, "it asks for nothing");
    // the selection moves while paused
    b.eval("select(view.order[0])");
    b.press("ArrowDown");
    b.press("ArrowDown");
    b.press("ArrowUp");
    assert_eq!(b.eval("view.flow === view.order[1]"), true);
    assert_eq!(b.eval("document.querySelector('#flows tr:nth-child(2)').getAttribute('aria-current')"), "true");
    b.eval("document.querySelector('#links .scroll').focus()");
    b.press("ArrowDown");
    assert_eq!(b.eval("view.flow === view.order[1]"), true, "it scrolls the links");
    b.eval("document.activeElement.blur(); view.rows = 100; select(view.order[350])");
    b.press("ArrowDown");
    let shown = "document.querySelector('#flows [aria-current]')?.dataset.id === view.order[351]";
    assert_eq!(b.eval(shown), true, "the rows up to it are added");
    b.press("Enter");
    assert_eq!(b.eval("document.activeElement.id"), "details");
    b.press("?");
    assert_eq!(b.eval("document.querySelector('#keys').open"), true);
    b.click("#close");
    assert_eq!(b.eval("document.querySelector('#keys').open"), false);
    b.press("p");
    b.wait(LIVE);
}

const BACKGROUND: &str = "getComputedStyle(document.documentElement).backgroundColor";

/// Each text has at least the contrast that WCAG's level AA asks for, in both themes.
const CONTRASTS: &str = "(() => {
    const probe = document.body.appendChild(document.createElement('i'));
    const light = (name) => {
        probe.style.color = `var(--${name})`;
        const linear = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const found = [];
    for (const back of ['card', 'hover', 'mark']) for (const text of ['text', 'dim', 'blue', 'orange', 'good', 'warn', 'bad']) {
        const [a, b] = [light(back), light(text)].sort((a, b) => b - a);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${text} on ${back}: ${(a + 0.05) / (b + 0.05)}`);
    }
    probe.remove();
    return found.join();
})()";

fn colours(b: &mut Browser) {
    b.prefer("light");
    let light = b.eval(BACKGROUND);
    assert_eq!(b.eval(CONTRASTS), "", "light");
    b.prefer("dark");
    let dark = b.eval(BACKGROUND);
    assert_ne!(light, dark);
    assert_eq!(b.eval(CONTRASTS), "", "dark");
    b.press("t");
    assert_eq!(
        (b.eval(BACKGROUND), b.eval("document.querySelector('#theme').textContent")),
        (light, "Theme: light".into())
    );
    b.press("t");
    b.prefer("light");
    b.eval("window.old = true");
    b.call("Page.reload", serde_json::json!({}));
    b.wait(&format!("window.old === undefined && document.readyState === 'complete' && {LIVE}"));
    assert_eq!(
        (b.eval(BACKGROUND), b.eval("document.querySelector('#theme').textContent")),
        (dark, "Theme: dark".into())
    );
    b.click("#theme");
    assert_eq!(b.eval("document.querySelector('#theme').textContent"), "Theme: auto");
}

fn charts(b: &mut Browser) {
    b.wait("[...model.flows.values()].some(f => f.cc === 'cc_page' && f.points.length > 2)");
    b.eval("select([...model.flows.values()].find(f => f.cc === 'cc_page').id)");
    b.wait("document.querySelectorAll('#charts polyline.series').length >= 4");
    let said = b.eval("document.querySelector('#details').innerText");
    assert!(said.as_str().unwrap().contains(MARKUP), "{said}");
    assert_eq!(b.eval("document.querySelectorAll('#details-state *').length"), 0, "a name is a text, not markup");
    b.wait("document.querySelector('#link-rows').textContent.includes('10.249.7.0/24')");
    b.eval("view.link = [...model.links.values()].find(l => l.peers === '10.249.7.0/24').slot; drawAll()");
    b.wait("document.querySelectorAll('#signal-charts circle').length > 2");
    assert_eq!(b.eval("document.querySelectorAll('#rule-rows tr').length"), 2);
    assert!(b.eval("document.querySelector('#algorithm-rows').textContent").as_str().unwrap().contains("builtin:dtcp"));
    b.size(390, 800);
    assert_eq!(
        b.eval("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "no sideways scrolling on a small screen"
    );
    b.size(1440, 1000);
}

/// Writes the guide's pictures if `HOTCC_WRITE_DOCS` is set; otherwise, checks that they are there, and small.
#[test]
fn the_guide_shows_the_page() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/page"));
    if std::env::var_os("HOTCC_WRITE_DOCS").is_some() {
        let Some((scene, _process, _, mut b)) = opened("the_guide_shows_the_page", "phone") else { return };
        b.press("/");
        b.type_in("10.249.7.2");
        b.wait("document.querySelectorAll('#flows tr').length === 6");
        b.eval(
            "document.activeElement.blur(); select([...model.flows.values()].find(f => f.peer.endsWith(':5202')).id)",
        );
        for _ in 0..5 {
            b.eval("new Promise(done => setTimeout(done, 25_000))"); // the charts show two minutes
        }
        for scheme in ["light", "dark"] {
            b.prefer(scheme);
            b.size(1440, 1000);
            let height = b.eval("document.documentElement.scrollHeight").as_u64().unwrap();
            b.size(1440, height.try_into().unwrap());
            b.wait(&format!("innerHeight === {height}"));
            b.eval("drawAll(); new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
            std::fs::write(folder.join(format!("{scheme}.webp")), b.picture()).unwrap();
        }
        drop(scene);
    }
    for name in ["light.webp", "dark.webp"] {
        let length = std::fs::metadata(folder.join(name)).unwrap().len();
        assert!((5_000..150_000).contains(&length), "{name}: {length} bytes");
    }
}
