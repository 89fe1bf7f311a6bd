//! A model whose invariants are checked while it runs by itself, after each hook.

use super::Model;
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::{Flow, View};

/// A hook, with its argument or result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hook {
    /// `init`.
    Init,
    /// `release`.
    Release,
    /// `pkts_acked`.
    PktsAcked,
    /// `cong_avoid` for this many segments.
    CongAvoid(u32),
    /// `ssthresh`, with its result.
    Ssthresh(u32),
    /// `undo_cwnd`, with its result.
    UndoCwnd(u32),
    /// `set_state` to this state.
    SetState(u8),
    /// `cwnd_event` of this kind.
    CwndEvent(u32),
}

/// Model and connection, before or after a hook.
pub type Moment<'a, M> = (&'a M, &'a View);

/// Invariants of a model.
pub trait Invariants<M>: Clone {
    /// Panics if a hook broke an invariant.
    fn hold(&mut self, hook: Hook, before: Moment<'_, M>, after: Moment<'_, M>);
}

/// A model with its invariants.
#[derive(Clone, Debug)]
pub struct Watched<M, I> {
    /// The model.
    pub model: M,
    /// The invariants.
    pub invariants: I,
}

impl<M: Model + Clone, I: Invariants<M>> Watched<M, I> {
    fn hook(&mut self, sock: &mut View, call: impl FnOnce(&mut M, &mut View) -> Hook) {
        let before = (self.model.clone(), *sock);
        let hook = call(&mut self.model, sock);
        self.invariants.hold(hook, (&before.0, &before.1), (&self.model, sock));
    }
}

impl<M: Model + Clone, I: Invariants<M>> Model for Watched<M, I> {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.model.tunables()
    }

    fn retune(&mut self, choice: u64) {
        self.model.retune(choice);
    }

    fn init(&mut self, sock: &mut View) {
        self.hook(sock, |m, s| {
            m.init(s);
            Hook::Init
        });
    }

    fn release(&mut self, sock: &mut View) {
        self.hook(sock, |m, s| {
            m.release(s);
            Hook::Release
        });
    }

    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        self.hook(sock, |m, s| {
            m.pkts_acked(s, rtt_us);
            Hook::PktsAcked
        });
    }

    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        self.hook(sock, |m, s| {
            m.cong_avoid(s, acked);
            Hook::CongAvoid(acked)
        });
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        let mut said = 0;
        self.hook(sock, |m, s| {
            said = m.ssthresh(s);
            Hook::Ssthresh(said)
        });
        said
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        let mut said = 0;
        self.hook(sock, |m, s| {
            said = m.undo_cwnd(s);
            Hook::UndoCwnd(said)
        });
        said
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        self.hook(sock, |m, s| {
            m.set_state(s, state);
            Hook::SetState(state)
        });
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.hook(sock, |m, s| {
            m.cwnd_event(s, event);
            Hook::CwndEvent(event)
        });
    }

    fn set_radio(&mut self, reading: Option<(u64, u32)>) {
        self.model.set_radio(reading);
    }

    fn set_pep(&mut self, flow: Option<PepFlow>) {
        self.model.set_pep(flow);
    }

    fn set_sack(&mut self, blocks: &[(u32, u32)]) {
        self.model.set_sack(blocks);
    }

    fn set_hint(&mut self, time_ns: u64, sequence: u32, hint: u8) {
        self.model.set_hint(time_ns, sequence, hint);
    }

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.model.agree(want, got, flow)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.model.agree_on_ssthresh(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        self.model.rounding()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.model.coverage()
    }
}
