//! The kernel's CUBIC, to which `mdcubic` delegates: a program may have its own in place of the stand-in.

use std::ffi::c_void;

/// A function of the kernel's CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cubic {
    /// `cubictcp_init`.
    Init,
    /// `cubictcp_recalc_ssthresh`.
    RecalcSsthresh,
    /// `cubictcp_cong_avoid`.
    CongAvoid,
    /// `cubictcp_state`.
    State,
    /// `cubictcp_acked`.
    Acked,
    /// `cubictcp_cwnd_event`.
    Event,
}

impl Cubic {
    const ALL: [Self; 6] = [Self::Init, Self::RecalcSsthresh, Self::CongAvoid, Self::State, Self::Acked, Self::Event];
}

/// A call of the kernel's CUBIC.
#[derive(Clone, Copy, Debug)]
pub struct CubicCall {
    /// The function.
    pub function: Cubic,
    /// Segments acknowledged, the new state, or the event, by function.
    pub argument: u32,
    /// RTT sample of [`Cubic::Acked`].
    pub rtt_us: Option<u32>,
}

/// The part of a socket that CUBIC changes: `struct cubic_window` of `host/kfuncs.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CubicWindow {
    /// Window W, segments.
    pub snd_cwnd: u32,
    /// Segments counted towards the next increase.
    pub snd_cwnd_cnt: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
}

/// An implementation of the kernel's CUBIC for one flow. Returns ssthresh for [`Cubic::RecalcSsthresh`].
pub type CubicDelegate = dyn FnMut(&mut CubicWindow, CubicCall) -> u32;

/// Calls the delegate that `context` points to.
///
/// # Safety
/// `context` must point to a live `Box<CubicDelegate>` that is not in a call, and `window` to the caller's window.
pub(crate) unsafe extern "C" fn call_delegate(
    context: *mut c_void,
    window: *mut CubicWindow,
    function: u32,
    argument: u32,
    rtt_us: i32,
) -> u32 {
    // SAFETY: the caller guarantees both; a delegate gets no way to call the algorithm, so it is never called twice.
    let (delegate, window) = unsafe { (&mut *context.cast::<Box<CubicDelegate>>(), &mut *window) };
    let Some(&function) = Cubic::ALL.get(function as usize) else { return 0 };
    delegate(window, CubicCall { function, argument, rtt_us: u32::try_from(rtt_us).ok() })
}
