//! The application: what it writes, and when.

use super::state::{Application, Sender};
use hotcc_lab_proto::plan::PlannedFlow;

/// Number of segments that fit into the smallest send buffer of the lab's hosts: 1 MiB, including the overhead of
/// socket buffers.
const MIN_BUFFER_SEGMENTS: u64 = 400;

impl Application {
    pub fn of(flow: &PlannedFlow) -> Self {
        Self { bytes: flow.bytes.unwrap_or(u64::MAX >> 1), pace: flow.pace, next_ns: 0, is_blocked: false }
    }

    /// Returns whether a write ends after byte `from` and at most at byte `to`.
    pub fn ends_write_within(&self, from: u64, to: u64) -> bool {
        let whole = to >= self.bytes;
        whole || self.pace.is_some_and(|pace| from / u64::from(pace.write_bytes) < to / u64::from(pace.write_bytes))
    }
}

impl Sender {
    /// Returns when the application writes next; `None` if it has no more to write, or waits for room in the buffer.
    pub fn next_write_ns(&self) -> Option<u64> {
        let app = &self.application;
        let writes = self.is_connected && app.pace.is_some() && !app.is_blocked && self.written < app.bytes;
        writes.then_some(app.next_ns.max(self.sock.now_ns)) // a write that waited for room is late
    }

    /// Starts the application's writes, once the connection is established.
    pub(super) fn begin_writing(&mut self) {
        self.application.next_ns = self.sock.now_ns;
        if self.application.pace.is_none() {
            self.check_app_limited();
            self.written = self.application.bytes;
            self.push();
        }
    }

    /// Lets the application write, if there is room in the buffer.
    pub fn application_writes(&mut self, now_ns: u64) {
        self.sock.now_ns = now_ns;
        let Some(pace) = self.application.pace else { return };
        if self.written - self.una >= self.buffer_bytes() {
            self.application.is_blocked = true;
            return;
        }
        self.application.next_ns += pace.interval_ns;
        self.restart_after_idle();
        self.check_app_limited();
        self.written += u64::from(pace.write_bytes).min(self.application.bytes - self.written);
        self.push();
        self.share_sequence();
    }

    /// `tcp_check_space`: wakes a blocked writer once a third of the buffer is free.
    pub(super) fn check_space(&mut self) {
        let app = &mut self.application;
        if app.is_blocked && (self.written - self.una) * 3 <= 2 * self.buffer_bytes() {
            self.application.is_blocked = false;
        }
    }

    /// Returns whether the application has more to write than its buffer has room for (`SOCK_NOSPACE`).
    pub(super) fn waits_for_room(&self) -> bool {
        let app = &self.application;
        app.is_blocked || app.pace.is_none() && self.written - self.una >= self.buffer_bytes()
    }

    /// `tcp_sndbuf_expand`.
    fn buffer_bytes(&self) -> u64 {
        let windows = u64::from(self.cc.sndbuf_expand()) * u64::from(self.sock.snd_cwnd);
        windows.max(MIN_BUFFER_SEGMENTS) * u64::from(self.sock.mss)
    }
}
