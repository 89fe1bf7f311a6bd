//! Calls the pure parts of the receiver's programs; see `bpf/progs/{one_way,arwa_receiver,drwa,hint_option}.h`.

use crate::library::{open, symbol};
use libloading::Library;

/// Finds the timestamp in options of a length; returns 0 if there is none.
type FindStamp = unsafe extern "C" fn(*const u8, u32, *mut u32) -> u32;

fn stamp_by(find: FindStamp, options: &[u8; 40], length: u32) -> Option<u32> {
    let mut tsval = 0;
    // SAFETY: it reads within the 40 bytes and writes the one word.
    (unsafe { find(options.as_ptr(), length, &raw mut tsval) } != 0).then_some(tsval)
}

/// The functions, in a library with its own tunables.
pub struct RxUnits {
    tcp_timestamp: FindStamp,
    tcp_aligned_timestamp: FindStamp,
    tick_kind_us: unsafe extern "C" fn(u64, u64) -> u32,
    hint_is_current: unsafe extern "C" fn(u64, u64) -> u32,
    hint_sequence_after: unsafe extern "C" fn(u32) -> u32,
    arwa_hint_of: unsafe extern "C" fn(u32) -> u32,
    arwa_receive: unsafe extern "C" fn(*mut State, u64, u32, u32, u32, u32) -> u32,
    arwa_tick_us: unsafe extern "C" fn(*const State) -> u32,
    drwa_receive: unsafe extern "C" fn(*mut State, u64, u64, u32) -> u32,
    library: Library,
}

/// The state that one of the functions keeps for a connection.
#[repr(C, align(8))]
pub struct State([u8; 256]);

impl Default for State {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl RxUnits {
    /// Loads the functions.
    #[must_use]
    pub fn load() -> Self {
        let library = open(include_bytes!(concat!(env!("OUT_DIR"), "/rx_units.so")));
        Self {
            tcp_timestamp: symbol(&library, "unit_tcp_timestamp"),
            tcp_aligned_timestamp: symbol(&library, "unit_tcp_aligned_timestamp"),
            tick_kind_us: symbol(&library, "unit_tick_kind_us"),
            hint_is_current: symbol(&library, "unit_hint_is_current"),
            hint_sequence_after: symbol(&library, "unit_hint_sequence_after"),
            arwa_hint_of: symbol(&library, "unit_arwa_hint_of"),
            arwa_receive: symbol(&library, "unit_arwa_receive"),
            arwa_tick_us: symbol(&library, "unit_arwa_tick_us"),
            drwa_receive: symbol(&library, "unit_drwa_receive"),
            library,
        }
    }

    /// Sets a tunable.
    pub fn set(&self, tunable: &str, value: u32) {
        let at: *mut u32 = symbol(&self.library, tunable);
        // SAFETY: tunables of these are u32 globals of the library, which is this value's own and lives as long.
        unsafe { at.write(value) };
    }

    /// Returns the timestamp among the options of a header.
    #[must_use]
    pub fn tcp_timestamp(&self, options: &[u8; 40], length: u32) -> Option<u32> {
        stamp_by(self.tcp_timestamp, options, length)
    }

    /// Returns the timestamp, but only if it is where nearly every sender has it.
    #[must_use]
    pub fn tcp_aligned_timestamp(&self, options: &[u8; 40], length: u32) -> Option<u32> {
        stamp_by(self.tcp_aligned_timestamp, options, length)
    }

    /// Returns the tick of the known kind of clock that fits; 0: none fits.
    #[must_use]
    pub fn tick_kind_us(&self, elapsed_us: u64, ticks: u64) -> u32 {
        // SAFETY: a pure function of its arguments; no caller has 0 ticks.
        unsafe { (self.tick_kind_us)(elapsed_us, ticks) }
    }

    /// Returns the hint for a loss of data rate in 1/10000; 0: none.
    #[must_use]
    pub fn arwa_hint_of(&self, loss_bp: u32) -> u32 {
        // SAFETY: a pure function of its argument.
        unsafe { (self.arwa_hint_of)(loss_bp) }
    }

    /// Returns whether a hint is still to be sent, from nanoseconds.
    #[must_use]
    pub fn hint_is_current(&self, made_ns: u64, now_ns: u64) -> bool {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.hint_is_current)(made_ns, now_ns) != 0 }
    }

    /// Returns the sequence of the hint after this one.
    #[must_use]
    pub fn hint_sequence_after(&self, sequence: u8) -> u32 {
        // SAFETY: a pure function of its argument.
        unsafe { (self.hint_sequence_after)(sequence.into()) }
    }

    /// Processes one arrival. If that made an estimate, returns its hint, or 0 if the estimate gave none.
    pub fn arwa_receive(&self, state: &mut State, arrival: &Arrival) -> Option<u32> {
        let Arrival { now_us, tsval, size, count, rtt_us } = *arrival;
        // SAFETY: the state is large enough (asserted where it is compiled) and all zeros are a new connection's.
        let told = unsafe { (self.arwa_receive)(state, now_us, tsval, size, count, rtt_us) };
        (told > 0).then(|| told - 256)
    }

    /// Returns the tick that was found; 0: none yet.
    #[must_use]
    pub fn arwa_tick_us(&self, state: &State) -> u32 {
        // SAFETY: as above; reads only.
        unsafe { (self.arwa_tick_us)(state) }
    }

    /// Processes one sent segment, and returns the window from then on; 0: not decided yet.
    pub fn drwa_receive(&self, state: &mut State, now_us: u64, received: u64, rtt_us: u32) -> u32 {
        // SAFETY: as above.
        unsafe { (self.drwa_receive)(state, now_us, received, rtt_us) }
    }
}

/// Segments that arrive as one.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of arrival.
    pub now_us: u64,
    /// Their timestamp.
    pub tsval: u32,
    /// Bytes of each.
    pub size: u32,
    /// How many.
    pub count: u32,
    /// Least RTT, 0: not known.
    pub rtt_us: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_has_tunables_of_its_own() {
        let [one, other] = [RxUnits::load(), RxUnits::load()];
        let tunable = |units: &RxUnits| symbol::<*mut u32>(&units.library, "least_window_ms");
        assert_ne!(tunable(&one), tunable(&other));
    }
}
