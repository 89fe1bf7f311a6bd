//! What moved sockets kept of what their former congestion control had learned.

use bytemuck::{Pod, Zeroable};
use serde::Serialize;
use std::ops::{Add, Sub};

/// Numbers of moved sockets whose new congestion control took a value over from the former one: `struct
/// learned_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, Serialize)]
pub struct Learned {
    /// The bandwidth estimate.
    pub bandwidth: u64,
    /// The path's least RTT.
    pub base_rtt: u64,
    /// N, the segments by which the window grows per RTT.
    pub n: u64,
}

impl Learned {
    /// Lists the values that any socket kept, each with the number of sockets; `None` if there are none.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let named = [("bandwidth", self.bandwidth), ("least RTT", self.base_rtt), ("N", self.n)];
        let kept: Vec<_> = named.into_iter().filter(|(_, sockets)| *sockets > 0).collect();
        let kept: Vec<_> = kept.into_iter().map(|(name, sockets)| format!("{name} {sockets}")).collect();
        (!kept.is_empty()).then(|| kept.join(", "))
    }
}

impl Add for Learned {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bandwidth: self.bandwidth + other.bandwidth,
            base_rtt: self.base_rtt + other.base_rtt,
            n: self.n + other.n,
        }
    }
}

impl Sub for Learned {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            bandwidth: self.bandwidth - other.bandwidth,
            base_rtt: self.base_rtt - other.base_rtt,
            n: self.n - other.n,
        }
    }
}
