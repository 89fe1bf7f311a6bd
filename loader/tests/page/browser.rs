//! A real browser without a window, driven by the Chrome DevTools Protocol. Messages go through a pair of pipes, so the
//! browser opens no port, and ends when the test does.

use data_encoding::BASE64;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// One page in a browser of its own, which ends when the value is dropped.
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn open(program: &str, url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // it reads from descriptor 3, and writes to 4
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program]);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let (send, answers) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for message in stdout.split(0).map_while(Result::ok) {
                if send.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let requests = child.stdin.take().unwrap();
        let events = Vec::new();
        let mut browser = Self { child, requests, answers, last_id: 0, session: None, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1440, 1000);
        browser.call("Page.navigate", json!({"url": url}));
        browser
    }

    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut request = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("no answer to {request}: {e}"));
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{request}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Evaluates a script on the page.
    #[track_caller]
    pub fn eval(&mut self, script: &str) -> Value {
        let parameters = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a script returns true.
    #[track_caller]
    pub fn wait(&mut self, script: &str) {
        let began = Instant::now();
        while self.eval(script) != true {
            if began.elapsed() > PATIENCE {
                let text = self.eval("document.body.innerText");
                panic!("{script} does not become true: {:#?}\n{}", self.events, text.as_str().unwrap());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key: a character, or a name such as `Enter`.
    pub fn press(&mut self, key: &str) {
        let mut event = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            event["text"] = key.into();
        } else if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    pub fn type_in(&mut self, text: &str) {
        text.chars().for_each(|c| self.press(&c.to_string()));
    }

    /// Clicks into the middle of an element.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let middle = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Sets the colours that the user prefers, `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Returns a picture of the window, as WebP.
    pub fn picture(&mut self) -> Vec<u8> {
        let data = self.call("Page.captureScreenshot", json!({"format": "webp", "quality": 85}))["data"].clone();
        BASE64.decode(data.as_str().unwrap().as_bytes()).unwrap()
    }

    /// Returns what the browser complained about since the last call: errors, warnings, violations of the page's policy.
    pub fn complaints(&mut self) -> Vec<Value> {
        self.eval("0"); // events of before have then arrived
        let is_complaint = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] != "verbose",
            _ => false,
        };
        self.events.drain(..).filter(is_complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed());
        let _ = killpg(group, Signal::SIGKILL); // fails if it has ended
        let _ = self.child.wait();
    }
}
