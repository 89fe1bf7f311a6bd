//! What the server's agent of a PEP reads of a connection, and the duplicate of an ACK by which it clocks the sender
//! (bpf/progs/pep_server.bpf.c).

use super::state::{Flight, Sender};
use crate::congestion::CaState;
use crate::packet::Ack;

impl Sender {
    /// Returns what the agent reads.
    pub fn flight(&self) -> Flight {
        let is_free = self.sock.packets_out > 0 && self.timers.probe_end.is_none();
        let may_be_clocked = is_free && self.sock.ca_state != CaState::Loss && self.window_end > self.una;
        Flight { una: self.una, next: self.next, may_be_clocked }
    }

    /// Processes the receiver's last ACK again, without timestamps and SACK blocks (`fill_ack`).
    pub fn clock(&mut self, now_ns: u64) {
        let (stamp_ms, window_end) = (self.sock.rcv_tsval, self.window_end);
        self.take_ack(now_ns, &Ack { cumulative: self.una, stamp_ms, window_end, ..Ack::default() }, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, MSS, START_MS, ack, sender};
    use super::*;

    #[test]
    fn the_agents_ack_sends_what_the_window_allows_and_has_no_other_effect() {
        let mut sender = sender(20, None);
        sender.acknowledge((START_MS + 100) * MS, &ack(2, 0..0, START_MS));
        let (srtt_us, timer, sack) = (sender.sock.srtt_us, sender.timers.pending, sender.sock.sack);
        sender.sock.snd_cwnd += 2;
        sender.clock((START_MS + 110) * MS);
        assert_eq!(sender.next, 26 * MSS, "22 + 2 by the ACK, 2 by the agent's");
        assert_eq!((sender.sock.srtt_us, sender.sock.sack, sender.sock.ca_state), (srtt_us, sack, CaState::Open));
        assert_eq!(sender.timers.pending.map(|(what, _)| what), timer.map(|(what, _)| what));
    }

    #[test]
    fn a_sender_is_clocked_unless_that_would_have_another_effect() {
        let changed = |change: fn(&mut Sender)| {
            let mut sender = sender(20, None);
            change(&mut sender);
            sender.flight().may_be_clocked
        };
        assert!(changed(|_| {}));
        assert!(!changed(|sender| sender.sock.packets_out = 0));
        assert!(!changed(|sender| sender.timers.probe_end = Some(20 * MSS)));
        assert!(!changed(|sender| sender.sock.ca_state = CaState::Loss));
        assert!(!changed(|sender| sender.window_end = 0));
    }
}
